"""Faults of boards, drawn by a seed, and how a rollout must end on each."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from pathlib import Path

from tests.field.build import faults as faulty_disk
from tests.releases.made import BERT
from tests.rollouts.toys import APP, CLOCK, toy_board, toy_trust, write_policy
from toolchain.boards.board import Board

ENDS = {
    "clock": "refused",
    "class": "refused",
    "trust": "refused",
    "health": "rolled-back",
    "killed": "failed",
    "gone": "failed",
    "full": "interrupted",
    "corrupt": "refused",
}
"""Fault -> state at the end."""
_OTHER_BYTES = -1  # installer/faults.c


def faulty_fleet(
    folder: Path, count: int, faulty: int, health_s: float, seed: int
) -> tuple[list[Board], dict[str, str]]:
    """Make boards, some of them with faults; return them, and the faults by the boards' names.

    Parameters
    ----------
    health_s
        Duration of each board's health command: the time that a board takes for itself.
    """
    rng = random.Random(seed)
    boards = [toy_board(folder / f"b{number:03}") for number in range(count)]
    chosen = rng.sample(range(count), faulty)
    kinds = list(ENDS)
    faults = {boards[place].name: kinds[turn % len(kinds)] for turn, place in enumerate(chosen)}
    for place, board in enumerate(boards):
        root = folder / board.name
        write_policy(root, health=["sleep", f"{health_s:g}"])
        match faults.get(board.name):
            case "clock":
                boards[place] = toy_board(root, {**CLOCK, "FIELD_NOW": "1000"})
            case "class":
                write_policy(root, **{"class": "pynq"})
            case "trust":
                other = toy_trust(folder, BERT).envelopes[0]
                (root / "field" / "trust.json").write_bytes(other.to_bytes())
            case "health":
                write_policy(root, health=["false"], health_tries=1)
            case "killed":
                write_policy(root, health=["sh", "-c", "kill -9 $PPID"])
            case "gone":
                _remove(root)
            case "full":
                boards[place] = _with_disk(root, errno.ENOSPC)
            case "corrupt":
                boards[place] = _with_disk(root, _OTHER_BYTES)
    return boards, faults


def _with_disk(root: Path, fault: int) -> Board:
    """Make a board whose disk has a fault where the parts of a release arrive."""
    incoming = root / "field" / APP / "incoming"
    incoming.mkdir(parents=True)
    said = root / "fault"
    said.write_text(str(fault))
    preloaded = {"LD_PRELOAD": str(faulty_disk()), "FAULT_FILE": str(said), "FAULT_ROOT": f"{incoming}/"}
    return toy_board(root, {**CLOCK, **preloaded})


def _remove(root: Path) -> None:
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    root.rmdir()


def wrong_ends(faults: dict[str, str], states: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return board, fault and state where a board did not end as it must."""
    return [
        (name, faults.get(name, ""), state)
        for name, state in states
        if state != (ENDS[faults[name]] if name in faults else "installed")
    ]
