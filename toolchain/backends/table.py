"""The table of backends, the only place that names them all; plugins add theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.architectures.architecture import Rates
from toolchain.architectures.table import architecture_of
from toolchain.backends.packed import kinds as packed
from toolchain.backends.tensorir import kinds as tensorir
from toolchain.backends.vta import space as vta
from toolchain.devices.table import KindTable, kind_names
from toolchain.errors import UsageError
from toolchain.profiles import Profile
from toolchain.records.distill import BuildVariant
from toolchain.records.store import anything
from toolchain.tasks.backend import Backend
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.tuner import Space

if TYPE_CHECKING:
    from toolchain.models.load import Model
    from toolchain.records.exchange import Function
    from toolchain.records.record import Record
    from toolchain.targets.build_for import BuildFor
    from toolchain.vta.layers.region import Region


@dataclass(frozen=True)
class BackendRow:
    """A row of the table of backends: which options select it, and how to create it.

    Attributes
    ----------
    devices
        Kinds of devices for which it generates code.
    layouts
        Values of `--layout` that select it.
    make
        Returns the backend for a board class and options; raises UsageError if the options do not fit.
    builds
        Its kinds of builds, each with the records that it can use.
    on_boards
        Whether boards measure its candidates if the user names no runner.
    """

    devices: tuple[str, ...]
    layouts: tuple[str, ...]
    make: Callable[[Profile, CodeOptions], Backend[Any]]
    builds: tuple[BuildVariant, ...]
    on_boards: bool = True


def packed_code(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return the backend with our generators: for CPUs, and for devices with a dialect and a machine."""
    from toolchain.backends.packed.backend import Packed

    return Packed(profile, options)


def _vta(profile: Profile, options: CodeOptions) -> Backend[Any]:
    from toolchain.backends.vta.backend import Vta

    return Vta(profile, options)


def scheduled_code(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return the backend with schedules: for CPUs, and for devices with a dialect and schedules."""
    from toolchain.backends.tensorir.backend import TensorIR  # imports MetaSchedule

    return TensorIR(profile, options)


PACKED_BUILDS = (
    BuildVariant(packed.KINDS, packed.usable(winograd=True)),
    BuildVariant(packed.KINDS, packed.usable(winograd=False), "--winograd off"),
    BuildVariant(packed.TFLOAT32_KINDS, anything, "--dtype tfloat32"),
)

BACKENDS = [
    BackendRow(("cpu", "opencl", "cuda"), ("packed",), packed_code, PACKED_BUILDS),
    BackendRow(
        ("cpu",),
        ("NCHW", "NHWC"),
        scheduled_code,
        (BuildVariant(tensorir.KINDS, anything, "--layout NCHW|NHWC"),),
    ),
    # Its records are listed by the row before. In NCHW no vector would run along the channels.
    BackendRow(("opencl", "cuda"), ("NHWC",), scheduled_code, ()),
    BackendRow(
        ("vta",), ("packed",), _vta, (BuildVariant(vta.KINDS, anything, "--device vta"),), on_boards=False
    ),
]
"""The backends of this package; `--layout auto` selects the first for a device."""

PLUGINS: KindTable[Sequence[BackendRow]] = KindTable("backends", {})


def backend_rows() -> list[BackendRow]:
    """Return all rows, those of plugins too; every plugin is loaded."""
    return [*BACKENDS, *(row for kind in kind_names() for row in PLUGINS.find(kind) or ())]


def _rows_for(kind: str) -> list[BackendRow]:
    return [row for row in (*BACKENDS, *(PLUGINS.find(kind) or ())) if kind in row.devices]


@dataclass(frozen=True)
class Exchange:
    """Reads and writes records in the format of another program.

    Attributes
    ----------
    write
        Writes the records that the other program supports, given functions by id; returns the number of
        functions and of records.
    read
        Returns the functions and records that were measured on a board or a board class.
    """

    write: Callable[[Path, Mapping[str, Function], Iterable[Record]], tuple[int, int]]
    read: Callable[[Path, BuildFor], tuple[list[Function], list[Record]]]


def metaschedule() -> Exchange:
    """Return the reader and writer of MetaSchedule's JSON database, a folder."""
    from toolchain.backends.tensorir.traces import read_database, write_database  # imports TVM

    return Exchange(write_database, read_database)


def class_rates(triple: str, cpu: str) -> Rates | None:
    """Return the speeds by which code for a cpu is chosen if none were measured; None: not known here."""
    row = architecture_of(triple)
    return row.rates_of(cpu) if row else None


def estimated_ms(space: Space[Any], point: Any) -> float | None:
    """Return the estimate by which the code of a CPU's task is chosen without records, in ms for one call.

    None if the space's backend or the point's algorithm has no estimate.
    """
    from toolchain.backends.packed.space import PackedSpace  # imports TVM

    return space.estimated_ms(point) if isinstance(space, PackedSpace) else None


def vta_regions(model: Model, options: CodeOptions) -> Sequence[Region]:
    """Return the regions of a network that a VTA computes; each becomes one program.

    Raises
    ------
    UsageError
        There is no such region, or the network lacks an operator that the options name.
    """
    from toolchain.backends.vta.offload import Offload  # imports TVM

    return Offload(model.module, options.start_pack, options.stop_pack).regions


def measured_on_boards(runner: str | None, device_kind: str) -> bool:
    """Return whether boards measure a device's candidates.

    Parameters
    ----------
    runner
        Name of the runner; None if the user named none.
    """
    if runner is not None:
        return runner == "boards"
    return all(row.on_boards for row in _rows_for(device_kind))


def backend_for(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return the backend that the options select.

    Raises
    ------
    UsageError
        Boards of the class have no such device, or no backend generates such code for it.
    """
    profile.device(options.device_kind)
    found = _rows_for(options.device_kind)
    for row in found:
        if options.layout in ("auto", *row.layouts):
            return row.make(profile, options)
    if not found:
        kinds = sorted({kind for row in BACKENDS for kind in row.devices})
        raise UsageError(
            f"--device {options.device}: no backend generates code for it",
            f"there is code for: {', '.join(kinds)}",
        )
    known = ", ".join(["auto", *(layout for row in found for layout in row.layouts)])
    raise UsageError(
        f"--layout {options.layout}: there is no code in this layout for --device {options.device}",
        f"use --layout {known}",
    )
