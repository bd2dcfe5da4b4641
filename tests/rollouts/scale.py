"""A rollout to many boards in a process of its own: its time, its memory, and how each board ended.

`python -m tests.rollouts.scale FOLDER BOARDS FAULTY AT_ONCE HEALTH_S` prints one JSON document.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.peak_memory import peak_kib
from tests.rollouts.faults import faulty_fleet, wrong_ends
from tests.rollouts.toys import delivery, stocked, toy_board, write_policy
from toolchain.boards.board import Board
from toolchain.events.rollouts import BoardOutcome, Rules
from toolchain.releases.export import Delivery
from toolchain.rollouts import attempt
from toolchain.rollouts.course import begin
from toolchain.rollouts.journal import Journal
from toolchain.rollouts.ssh import Rollout


def roll_out(
    folder: Path, given: Delivery, boards: list[Board], at_once: int
) -> tuple[float, dict[str, BoardOutcome]]:
    """Return the seconds of a rollout and its outcomes."""
    rules = Rules(at_once=at_once, max_failures=len(boards), window_s=0)
    began = time.monotonic()
    with Journal(folder / f"{len(boards)}.jsonl") as journal:
        rollout = Rollout(begin(given.signed, boards, rules), given, threading.Event())
        for _ in journal.keep(rollout.run()):
            pass
    return time.monotonic() - began, rollout.outcomes


def measure(folder: Path, count: int, faulty: int, at_once: int, health_s: float) -> dict[str, Any]:
    """Roll out to one board, then to `count`; return the numbers."""
    os.environ["TOOLCHAIN_STATE_DIR"] = str(folder / "state")
    setattr(attempt, "install_edge_rt", stocked)  # noqa: B010 - it is no name of the module
    given = delivery(folder)
    one = toy_board(folder / "one")
    write_policy(folder / "one", health=["sleep", f"{health_s:g}"])
    alone, outcomes = roll_out(folder, given, [one], 1)
    assert outcomes["one"].state == "installed", outcomes
    boards, faults = faulty_fleet(folder / "fleet", count, faulty, health_s, seed=29)
    seconds, outcomes = roll_out(folder, given, boards, at_once)
    states = [(name, outcome.state) for name, outcome in outcomes.items()]
    return {
        "boards": count,
        "faulty": faulty,
        "one_board_s": round(alone, 2),
        "seconds": round(seconds, 2),
        "ratio": round(seconds / (alone * count / at_once), 3),
        "peak_mib": round(peak_kib() / 1024, 1),
        "installed": sum(state == "installed" for _, state in states),
        "wrong": [[*each, outcomes[each[0]].error] for each in wrong_ends(faults, states)],
    }


if __name__ == "__main__":
    where, *numbers = sys.argv[1:]
    counts = [int(number) for number in numbers[:3]]
    print(json.dumps(measure(Path(where), counts[0], counts[1], counts[2], float(numbers[3]))))
