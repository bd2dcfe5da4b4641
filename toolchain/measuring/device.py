"""Chooses the device of a board that runs a bundle."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.bundles.manifest import Manifest
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError


def chosen_device(manifest: Manifest, board: Board, facts: EdgeRtInfo, wanted: str | None) -> str:
    """Return the device for edge-rt's option `--device`.

    Parameters
    ----------
    facts
        Answer of `edge-rt info` on the board.
    wanted
        `KIND` or `KIND:NAME`; None: the device that the bundle was built for if the board has it, else the
        first of its kind that is no simulation.

    Raises
    ------
    UsageError
        The bundle needs another kind of device, or the board has no device of this name.
    """
    kind = manifest.runtime.device
    names = [name for each in facts.devices if each.kind == kind for name in each.names]
    known = [f"{kind}:{name}" for name in names]
    if wanted is None:
        if manifest.device in known:
            return manifest.device
        real = [name for name in known if name != simulation(kind)]
        return real[0] if simulation(kind) and real else kind
    if wanted.partition(":")[0] != kind:
        raise UsageError(
            f"--device {wanted}: {manifest.model.name} was built for {manifest.device}",
            f"--device {manifest.device if manifest.device in known else kind}",
        )
    if wanted not in (kind, *known):
        raise UsageError(
            f"--device {wanted}: board {board.name} has no such device", f"it has: {', '.join(known)}"
        )
    return wanted


def simulation(device: str) -> str:
    """Return edge-rt's name of the simulation of a device's kind, as `KIND:NAME`; empty if it has none.

    A simulation is used only if its name is given.
    """
    row = kind_of(device)
    return f"{row.name}:{row.simulation}" if row.simulation else ""


def simulates(facts: EdgeRtInfo, kind: str) -> bool:
    """Return whether the board can simulate a device of this kind."""
    return simulation(kind) in [f"{each.kind}:{name}" for each in facts.devices for name in each.names]


def simulation_warnings(device: str) -> list[str]:
    """Return warnings about the results if a simulation computed them."""
    if device != simulation(device):
        return []
    return [f"{device} computed: a simulation, whose times say nothing about an accelerator's"]
