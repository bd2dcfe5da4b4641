"""The table of kinds of devices. A new one is a row here, or a plugin's: docs/howto/add-a-device.md."""

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
"""Group of entry points by which installed packages add kinds: the kind's name = `module:ROW`."""

OWN = {row.name: row for row in (DeviceKind(name="cpu"), OPENCL, VTA)}
"""Kinds of this package, by name; no plugin takes the place of one."""

# What a driver says of units and clocks does not tell how wide they are. The fastest device of all has 1.6e14
# without units for matrices, which no kind here reaches.
_FASTEST = 2e14


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of this package first; loads no plugin."""
    return (*OWN, *sorted({point.name for point in _plugins()} - set(OWN)))


def find_kind(name: str) -> DeviceKind | None:
    """Return the row of a kind; None where there is none.

    Raises
    ------
    MissingError
        It is a plugin's, which cannot be loaded.
    """
    return OWN.get(name) or _of_plugin(name)


def kind_of(device: str) -> DeviceKind:
    """Return the row of a device's kind; an empty one where the kind is unknown here, as a bundle's may be.

    Parameters
    ----------
    device
        A kind, or a kind and a name: `opencl:mali-t860`.

    Raises
    ------
    MissingError
        It is a plugin's, which cannot be loaded.
    """
    name = device.partition(":")[0]
    return find_kind(name) or DeviceKind(name=name)


def kernel_kinds() -> tuple[str, ...]:
    """Return the names of this package's kinds that run kernels from source."""
    return tuple(row.name for row in OWN.values() if row.language)


def with_kernels() -> str:
    """Return what to type for code that has kernels, as a hint."""
    return "add " + " or ".join(f"--device {kind}" for kind in kernel_kinds())


def peak_flops(device: str) -> float | None:
    """Return the most FLOP/s that a device can do; None for a CPU, whose cores are known by themselves.

    Parameters
    ----------
    device
        As in `RecordKey`: empty for a CPU.
    """
    if not device:
        return None
    return kind_of(device).peak(device.partition(":")[2]) or _FASTEST


def plugin_files() -> list[Path]:
    """Return the Python files of the installed plugins: of each all that lies beside its row, and below."""
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
    from importlib.metadata import entry_points  # help does without

    return tuple(entry_points(group=GROUP))


@cache
def _of_plugin(name: str) -> DeviceKind | None:
    found = {point.value: point for point in _plugins() if point.name == name}
    if not found:
        return None
    said = f"devices of kind {name} are a plugin's"
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
