"""Rows of a table that installed packages add. A plugin is arbitrary code, run with the user's rights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from toolchain.errors import MissingError
from toolchain.foreign import first_line

FAULTS = (Exception, SystemExit)
"""Errors a plugin may raise when it is imported; they are reported with the plugin's name."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class Plugin:
    """A row that an installed package declares; nothing of the package is imported yet.

    Attributes
    ----------
    row
        Name of the row.
    package, version
        The distribution's name and version, as pip shows them.
    """

    row: str
    package: str
    version: str
    point: EntryPoint

    @property
    def uninstall(self) -> str:
        """Hint for a plugin that cannot be loaded."""
        return f"update it, or `pip uninstall {self.package}`"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class PluginRows(Generic[Row]):
    """The rows that installed packages add to one table by entry points: the row's name = `module:ROW`.

    Parameters
    ----------
    group
        Entry-point group of the table.
    kind
        Class of the rows.
    origin
        Sentence that names the origin of a row, with a place for its name: `devices of kind {} come from a
        plugin`.
    called
        Name of such rows in messages; that of the class by default.
    is_named
        Whether a row is the one of a name; by default its attribute `name` says so.
    """

    def __init__(
        self,
        group: str,
        kind: type[Row],
        origin: str,
        called: str = "",
        is_named: Callable[[Row, str], bool] = lambda row, name: getattr(row, "name", None) == name,
    ) -> None:
        self.group, self._kind, self._origin = group, kind, origin
        self._called, self._is_named = called or kind.__name__, is_named
        self._loaded: dict[str, Row] = {}

    @cached_property
    def installed(self) -> tuple[Plugin, ...]:
        """The rows that installed packages add, by name and package; none of them is loaded."""
        found = [
            Plugin(point.name, *((point.dist.name, point.dist.version) if point.dist else ("?", "?")), point)
            for point in entry_points(group=self.group)
        ]
        return tuple(sorted(found, key=lambda plugin: (plugin.row, plugin.package, plugin.point.value)))

    def load(self, name: str) -> Row | None:
        """Import and return the row of a name; None if no plugin adds it.

        Raises
        ------
        MissingError
            It cannot be loaded, or several plugins add that row.
        """
        if name not in self._loaded:
            row = self._load(name)
            if row is None:
                return None
            self._loaded[name] = row
        return self._loaded[name]

    def _load(self, name: str) -> Row | None:
        candidates = {plugin.point.value: plugin for plugin in self.installed if plugin.row == name}
        if not candidates:
            return None
        origin = self._origin.format(name)
        if len(candidates) > 1:
            several = ", ".join(
                f"{value} of {plugin.package}" for value, plugin in sorted(candidates.items())
            )
            raise MissingError(f"{origin}, and there are several: {several}", "uninstall all of them but one")
        (plugin,) = candidates.values()
        try:
            row = plugin.point.load()
        except FAULTS as error:
            raise MissingError(
                f"{origin}, {plugin.package}, which cannot be loaded: {first_line(error)}", plugin.uninstall
            ) from error
        if not isinstance(row, self._kind) or not self._is_named(row, name):
            kind = f"{plugin.point.value} is no `{self._called}` of that name"
            raise MissingError(f"{origin}, {plugin.package}, but {kind}", plugin.uninstall)
        return row

    def code(self, name: str, column: str, reference: str) -> Any:
        """Import what a row of a plugin names as the code of one column.

        Raises
        ------
        MissingError
            It cannot be loaded.
        """
        try:
            return EntryPoint(name, reference, column).load()
        except FAULTS as error:
            raise MissingError(
                f"{self._origin.format(name)}: its {column}, {reference}, cannot be loaded: "
                f"{first_line(error)}",
                "update or uninstall the plugin",
            ) from error

    def files(self) -> list[Path]:
        """Return the Python files of the installed plugins: all in and below the folder of each row."""
        return sorted({file for plugin in self.installed for file in _files_of(plugin)})

    def forget(self) -> None:
        """Look for plugins again when the next row is asked for."""
        self.__dict__.pop("installed", None)
        self._loaded.clear()


def _files_of(plugin: Plugin) -> Iterable[Path]:
    """Find the files of a plugin without running any of its code."""
    try:
        package, *within = plugin.point.module.split(".")
        spec = find_spec(package)  # of a whole dotted name it would import the packages around it
    except FAULTS:  # the entry point is malformed
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec.origin else []
    folders = [Path(place, *within[:-1]) for place in spec.submodule_search_locations]
    return [file for folder in folders for file in folder.rglob("*.py")]
