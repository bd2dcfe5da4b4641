"""Tables of code by kind of device, to which plugins add entries."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from toolchain.devices.kind import Seam
from toolchain.devices.plugins import FAULTS
from toolchain.devices.table import find_kind
from toolchain.errors import MissingError
from toolchain.foreign import first_line

Code = TypeVar("Code")


class KindTable(Generic[Code]):
    """The code of one seam for each kind of device that has such code.

    Parameters
    ----------
    seam
        Name of the seam; a plugin's `DeviceKind.code` uses it as a key.
    own
        The code of this package, by kind.
    """

    def __init__(self, seam: Seam, own: Mapping[str, Code]) -> None:
        self._seam: Seam = seam
        self._own = own

    def find(self, kind: str) -> Code | None:
        """Return the code for a kind of device, or None if it has none.

        Raises
        ------
        MissingError
            The code belongs to a plugin that cannot be loaded.
        """
        if kind in self._own:
            return self._own[kind]
        row = find_kind(kind)
        reference = row.code.get(self._seam) if row else None
        return None if reference is None else self._loaded(kind, reference)

    def _loaded(self, kind: str, reference: str) -> Any:
        try:
            return EntryPoint(kind, reference, self._seam).load()
        except FAULTS as error:
            raise MissingError(
                f"the plugin for devices of kind {kind}: its {self._seam}, {reference}, cannot be loaded: "
                f"{first_line(error)}",
                "update or uninstall the plugin",
            ) from error
