"""Rows that installed packages add to tables of this package: kinds of devices, formats of networks.

A plugin is arbitrary code, run with the user's rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolchain.devices.kind import DeviceKind
from toolchain.errors import MissingError
from toolchain.foreign import first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "edge_toolchain.backends"
"""Entry-point group in which installed packages declare kinds: the kind's name = `module:ROW`."""

FAULTS = (Exception, SystemExit)
"""Errors a plugin may raise when it is imported; they are reported with the plugin's name."""


@dataclass(frozen=True)
class Plugin:
    """A row that an installed package declares; nothing of the package is imported yet.

    Attributes
    ----------
    kind
        The entry point's name: a kind of device, or the ending of a format's files.
    package, version
        The distribution's name and version, as pip shows them.
    """

    kind: str
    package: str
    version: str
    point: EntryPoint

    @property
    def uninstall(self) -> str:
        """Hint for a plugin that cannot be loaded."""
        return f"update it, or `pip uninstall {self.package}`"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


@cache
def plugins(group: str = GROUP) -> tuple[Plugin, ...]:
    """Return the rows that installed packages add to a table, by kind and package; loads none of them."""
    from importlib.metadata import entry_points  # help of most commands does without

    declared = [
        Plugin(point.name, *((point.dist.name, point.dist.version) if point.dist else ("?", "?")), point)
        for point in entry_points(group=group)
    ]
    return tuple(sorted(declared, key=lambda plugin: (plugin.kind, plugin.package, plugin.point.value)))


@cache
def load_plugin(kind: str) -> DeviceKind | None:
    """Import and return the row of a kind that a plugin adds; None if no plugin adds it.

    Raises
    ------
    MissingError
        It cannot be loaded, or several plugins add that kind.
    """
    return load_row(kind, GROUP, DeviceKind, f"devices of kind {kind}", lambda row: row.name == kind)


Row = TypeVar("Row")


def load_row(
    kind: str, group: str, row_type: type[Row], things: str, is_of_kind: Callable[[Row], bool]
) -> Row | None:
    """Import and return the row that a plugin declares under a name; None if no plugin declares it.

    Parameters
    ----------
    kind, group
        Name and group of the entry point.
    row_type
        Class of the table's rows.
    things
        What the row describes, for messages.
    is_of_kind
        Whether a row is the one that its entry point promises.

    Raises
    ------
    MissingError
        It cannot be loaded, or several plugins declare that name.
    """
    declared = {plugin.point.value: plugin for plugin in plugins(group) if plugin.kind == kind}
    if not declared:
        return None
    origin = f"{things} come from a plugin"
    if len(declared) > 1:
        several = ", ".join(f"{value} of {plugin.package}" for value, plugin in sorted(declared.items()))
        raise MissingError(f"{origin}, and there are several: {several}", "uninstall all of them but one")
    (plugin,) = declared.values()
    try:
        row = plugin.point.load()
    except FAULTS as error:
        raise MissingError(
            f"{origin}, {plugin.package}, which cannot be loaded: {first_line(error)}", plugin.uninstall
        ) from error
    if not isinstance(row, row_type) or not is_of_kind(row):
        wrong = (
            f"{origin}, {plugin.package}, but {plugin.point.value} is no `{row_type.__name__}` of that name"
        )
        raise MissingError(wrong, plugin.uninstall)
    return row


def plugin_files() -> list[Path]:
    """Return the Python files of the installed plugins: all files in and below the folder of each row."""
    return sorted({file for plugin in plugins() for file in _files_of(plugin)})


def _files_of(plugin: Plugin) -> Iterable[Path]:
    """Find the files of a plugin without running any of its code."""
    try:
        package, *within = plugin.point.module.split(".")
        found = find_spec(package)  # of a whole dotted name it would import the packages around it
    except FAULTS:  # the entry point is malformed
        return []
    if found is None:
        return []
    if found.submodule_search_locations is None:
        return [Path(found.origin)] if found.origin else []
    folders = [Path(place, *within[:-1]) for place in found.submodule_search_locations]
    return [file for folder in folders for file in folder.rglob("*.py")]
