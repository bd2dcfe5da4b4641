"""Which of a board's devices a bundle is executed on."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import Facts
from toolchain.bundles.manifest import Manifest
from toolchain.errors import UsageError
from toolchain.profiles import VTA

SIMULATION = f"{VTA}:sim"
"""What edge-rt calls its VTA in software. It computes only where this name is given."""


def chosen_device(manifest: Manifest, board: Board, facts: Facts, wanted: str | None) -> str:
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
        real = [name for name in known if name != SIMULATION]
        return real[0] if kind == VTA and real else kind
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


def simulates(facts: Facts, kind: str) -> bool:
    """Return whether the board can simulate a device of that kind."""
    return any(f"{kind}:{name}" == SIMULATION for each in facts.devices for name in each.names)


def simulation_warnings(device: str) -> list[str]:
    """Return what to know of results that a simulation computed."""
    if device != SIMULATION:
        return []
    return [f"{SIMULATION} computed: a simulation, whose times say nothing about an accelerator's"]
