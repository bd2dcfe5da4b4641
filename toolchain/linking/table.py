"""The linkers by name."""

from __future__ import annotations

from toolchain.errors import UsageError
from toolchain.linking.gcc import GccLinker
from toolchain.linking.linker import Linker
from toolchain.linking.lld import ZigLinker
from toolchain.linking.ndk import NdkLinker

_LINKERS: dict[str, type[Linker]] = {"zig": ZigLinker, "gcc": GccLinker, "ndk": NdkLinker}


def linker_named(name: str) -> Linker:
    """Return the linker that `--linker NAME` means.

    Raises
    ------
    UsageError
        There is no linker of that name.
    """
    if name not in _LINKERS:
        raise UsageError(
            f"--linker {name}: there is no such linker", f"the linkers are: {', '.join(_LINKERS)}"
        )
    return _LINKERS[name]()
