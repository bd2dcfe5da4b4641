"""Which of a board's devices a bundle is executed on."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.bundles.manifest import Manifest
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError


def chosen_device(manifest: Manifest, board: Board, facts: EdgeRtInfo, wanted: str | None) -> str:
    """Return what edge-rt is told to compute on.

    Parameters
    ----------
    facts
        What `edge-rt info` says on the board.
    wanted
        A kind and a name; None: the device that the bundle was built for, where the board names it so,
        else the first of the kind that the bundle needs.

    Raises
    ------
    UsageError
        The bundle runs on devices of another kind, or the board has none of that name.
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
    """Return what edge-rt calls its simulation of a device's kind, as `KIND:NAME`; empty: it has none.

    It computes only where this name is given.
    """
    row = kind_of(device)
    return f"{row.name}:{row.simulation}" if row.simulation else ""


def simulates(facts: EdgeRtInfo, kind: str) -> bool:
    """Return whether the board can simulate a device of that kind."""
    return simulation(kind) in [f"{each.kind}:{name}" for each in facts.devices for name in each.names]


def simulation_warnings(device: str) -> list[str]:
    """Return what to know of results that a simulation computed."""
    if device != simulation(device):
        return []
    return [f"{device} computed: a simulation, whose times say nothing about an accelerator's"]
