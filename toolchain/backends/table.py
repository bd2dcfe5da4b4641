"""The ways of making code there are: the one place that names them, and asks plugins for theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.backends.packed import kinds as packed
from toolchain.backends.tensorir import kinds as tensorir
from toolchain.backends.vta import kinds as vta
from toolchain.devices.by_kind import KindTable
from toolchain.devices.table import kind_names
from toolchain.errors import UsageError
from toolchain.profiles import Profile
from toolchain.records.store import anything
from toolchain.records.taken import Build
from toolchain.tasks.backend import Backend
from toolchain.tasks.options import CodeOptions

if TYPE_CHECKING:
    from toolchain.models.load import Model
    from toolchain.records.function import Function
    from toolchain.records.record import Record
    from toolchain.targets.build_for import BuildFor
    from toolchain.vta.layers.region import Region


@dataclass(frozen=True)
class Offer:
    """A way of making code, before it is known what for.

    Attributes
    ----------
    devices
        Kinds of devices that it makes code for.
    layouts
        Values of `--layout` that mean it.
    make
        Returns it for a board class and options; raises UsageError where the options do not fit.
    builds
        Its sorts of builds, with the records that they take.
    on_boards
        Whether boards measure its candidates where no runner is named.
    """

    devices: tuple[str, ...]
    layouts: tuple[str, ...]
    make: Callable[[Profile, CodeOptions], Backend[Any]]
    builds: tuple[Build, ...]
    on_boards: bool = True


def packed_code(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return the generator's code: for CPUs, and kinds of devices that have a dialect and a machine."""
    from toolchain.backends.packed.backend import Packed

    return Packed(profile, options)


def _vta(profile: Profile, options: CodeOptions) -> Backend[Any]:
    from toolchain.backends.vta.backend import Vta

    return Vta(profile, options)


def scheduled_code(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return scheduled code: for CPUs, and kinds of devices that have a dialect and schedules."""
    from toolchain.backends.tensorir.backend import TensorIR  # imports MetaSchedule

    return TensorIR(profile, options)


PACKED_BUILDS = (
    Build(packed.KINDS, packed.usable(winograd=True)),
    Build(packed.KINDS, packed.usable(winograd=False), "--winograd off"),
)

BACKENDS = [
    Offer(("cpu", "opencl"), ("packed",), packed_code, PACKED_BUILDS),
    Offer(
        ("cpu",), ("NCHW", "NHWC"), scheduled_code, (Build(tensorir.KINDS, anything, "--layout NCHW|NHWC"),)
    ),
    # Its records are taken as those of the row before. In NCHW no vector would lie along the channels.
    Offer(("opencl",), ("NHWC",), scheduled_code, ()),
    Offer(("vta",), ("packed",), _vta, (Build(vta.KINDS, anything, "--device vta"),), on_boards=False),
]
"""Of this package; `--layout auto` takes the first that a device has."""

PLUGINS: KindTable[Sequence[Offer]] = KindTable("backends", {})


def offers() -> list[Offer]:
    """Return all ways of making code; loads every plugin."""
    return [*BACKENDS, *(offer for kind in kind_names() for offer in PLUGINS.find(kind) or ())]


def _offers_for(kind: str) -> list[Offer]:
    return [offer for offer in (*BACKENDS, *(PLUGINS.find(kind) or ())) if kind in offer.devices]


@dataclass(frozen=True)
class Exchange:
    """Records in the files of another program.

    Attributes
    ----------
    write
        Writes those records that the other program knows, of functions by their ids; returns how many
        of both.
    read
        Returns what was measured on a board, or a class of boards.
    """

    write: Callable[[Path, Mapping[str, Function], Iterable[Record]], tuple[int, int]]
    read: Callable[[Path, BuildFor], tuple[list[Function], list[Record]]]


def metaschedule() -> Exchange:
    """Return how records go from and to MetaSchedule's database of JSON, which lies in a folder."""
    from toolchain.backends.tensorir.database import read_database, write_database  # imports TVM

    return Exchange(write_database, read_database)


def vta_regions(model: Model, options: CodeOptions) -> Sequence[Region]:
    """Return what of a network a VTA computes: each region becomes one program.

    Raises
    ------
    UsageError
        Nothing of it does, or it has no such operator as the options name.
    """
    from toolchain.backends.vta.offload import Offload  # imports TVM

    return Offload(model.module, options.start_pack, options.stop_pack).regions


def measured_on_boards(runner: str | None, device_kind: str) -> bool:
    """Return whether boards measure a device's candidates.

    Parameters
    ----------
    runner
        Name of who measures; None: nobody was named.
    """
    if runner is not None:
        return runner == "boards"
    return all(offer.on_boards for offer in _offers_for(device_kind))


def backend_for(profile: Profile, options: CodeOptions) -> Backend[Any]:
    """Return what makes the code that options ask for.

    Raises
    ------
    UsageError
        Boards of the class have no such device, or nothing makes such code for it.
    """
    profile.device(options.device_kind)
    found = _offers_for(options.device_kind)
    for offer in found:
        if options.layout in ("auto", *offer.layouts):
            return offer.make(profile, options)
    if not found:
        kinds = sorted({kind for offer in BACKENDS for kind in offer.devices})
        raise UsageError(
            f"--device {options.device}: nothing here makes code for it",
            f"there is code for: {', '.join(kinds)}",
        )
    known = ", ".join(["auto", *(layout for offer in found for layout in offer.layouts)])
    raise UsageError(
        f"--layout {options.layout}: there is no such code for --device {options.device}",
        f"use --layout {known}",
    )
