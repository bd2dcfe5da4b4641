"""The table of kinds of devices. A new kind is a row here or in a plugin: docs/howto/add-a-device.md."""

from __future__ import annotations

from toolchain.devices.cuda import CUDA
from toolchain.devices.kind import DeviceKind
from toolchain.devices.opencl import OPENCL
from toolchain.devices.plugins import load_plugin, plugins
from toolchain.devices.vta import VTA

CPU = DeviceKind(name="cpu", quantizers=("mse", "minmax", "percentile", "power-of-two", "global-scale"))

OWN = {row.name: row for row in (CPU, OPENCL, CUDA, VTA)}
"""Kinds of this package, by name; a plugin cannot replace them."""

# Drivers report units and clocks, but not the width of the units. The fastest device today reaches 1.6e14
# FLOP/s without matrix units, which no kind here exceeds.
_FASTEST = 2e14


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of this package first; no plugin is loaded."""
    return (*OWN, *sorted({plugin.kind for plugin in plugins()} - set(OWN)))


def find_kind(name: str) -> DeviceKind | None:
    """Return the row of a kind, or None if there is no such kind.

    Raises
    ------
    MissingError
        The kind belongs to a plugin that cannot be loaded.
    """
    return OWN.get(name) or load_plugin(name)


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
