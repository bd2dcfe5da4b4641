"""The table of kinds of devices. A new kind is a row here or in a plugin: docs/howto/add-a-device.md."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.devices.kind import DeviceKind
from toolchain.devices.opencl import OPENCL
from toolchain.devices.vta import VTA
from toolchain.errors import MissingError
from toolchain.foreign import first_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "edge_toolchain.backends"
"""Entry-point group in which installed packages declare kinds: the kind's name = `module:ROW`."""

OWN = {row.name: row for row in (DeviceKind(name="cpu"), OPENCL, VTA)}
"""Kinds of this package, by name; a plugin cannot replace them."""

# Drivers report units and clocks, but not the width of the units. The fastest device today reaches 1.6e14
# FLOP/s without matrix units, which no kind here exceeds.
_FASTEST = 2e14


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of this package first; no plugin is loaded."""
    return (*OWN, *sorted({point.name for point in _plugins()} - set(OWN)))


def find_kind(name: str) -> DeviceKind | None:
    """Return the row of a kind, or None if there is no such kind.

    Raises
    ------
    MissingError
        The kind belongs to a plugin that cannot be loaded.
    """
    return OWN.get(name) or _of_plugin(name)


def kind_of(device: str) -> DeviceKind:
    """Return the row of a device's kind; an empty row for an unknown kind, which a foreign bundle may have.

    Parameters
    ----------
    device
        A kind, or a kind with a name: `opencl:mali-t860`.

    Raises
    ------
    MissingError
        The kind belongs to a plugin that cannot be loaded.
    """
    name = device.partition(":")[0]
    return find_kind(name) or DeviceKind(name=name)


def kernel_kinds() -> tuple[str, ...]:
    """Return the names of this package's kinds that run kernels from source."""
    return tuple(row.name for row in OWN.values() if row.language)


def with_kernels() -> str:
    """Return a hint with the options that generate kernels."""
    return "add " + " or ".join(f"--device {kind}" for kind in kernel_kinds())


def peak_flops(device: str) -> float | None:
    """Return the peak FLOP/s of a device; None for a CPU, whose peak follows from its cores.

    Parameters
    ----------
    device
        Device as in `RecordKey`: empty for a CPU.
    """
    if not device:
        return None
    return kind_of(device).peak(device.partition(":")[2]) or _FASTEST


def plugin_files() -> list[Path]:
    """Return the Python files of the installed plugins: all files in and below the folder of each row."""
    files: set[Path] = set()
    for point in _plugins():
        found = find_spec(point.module)
        if found is None or found.origin is None:
            continue
        file = Path(found.origin)
        alone = "." not in point.module and file.name != "__init__.py"
        files |= {file} if alone else set(file.parent.rglob("*.py"))
    return sorted(files)


@cache
def _plugins() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow, and --help does without

    return tuple(entry_points(group=GROUP))


@cache
def _of_plugin(name: str) -> DeviceKind | None:
    found = {point.value: point for point in _plugins() if point.name == name}
    if not found:
        return None
    said = f"devices of kind {name} come from a plugin"
    if len(found) > 1:
        raise MissingError(
            f"{said}, and there are several: {', '.join(sorted(found))}", "uninstall all of them but one"
        )
    (point,) = found.values()
    package = point.dist.name if point.dist else point.module
    hint = f"update it, or `pip uninstall {package}`"
    try:
        row = point.load()
    except Exception as error:  # a plugin may raise anything
        raise MissingError(f"{said}, {package}, which cannot be loaded: {first_line(error)}", hint) from error
    if not isinstance(row, DeviceKind) or row.name != name:
        raise MissingError(f"{said}, {package}, but {point.value} is no `DeviceKind` of that name", hint)
    return row
