"""How a search gets faster with more boards: 1, 2, 4, 8 and 16, of which each measures by sleeping.

    python benchmarks/tuning_boards.py

The loop (`tuning/pipeline.py`), the scheduler and the runner that shares batches out are the real ones.
Boards are not: instead of a session there is a sleep, so that what is seen is what the loop itself costs, and
not the cores of this host. Building takes no time. Goal: N boards measure 0.9 N times as much as one.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from toolchain.boards.inventory.lookup import local_board
from toolchain.tasks.bench import Built
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.tuner import Result
from toolchain.tuning import runner
from toolchain.tuning.measure import measure
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.pipeline import pipeline
from toolchain.tuning.runner import BoardRunner
from toolchain.tuning.scheduler import Prospect
from toolchain.tuning.schedulers.round_robin import RoundRobin

MEASURING_S = 0.2
TRIALS_PER_BOARD = 48
CANDIDATE = Candidate(Entry("", "", ""), None, (), 1)  # type: ignore[arg-type]


class Sleeper:
    """Stands for the process that talks to a board."""

    def call(self, _deadline_s: float, function: object, *arguments: Any) -> Any:
        """Take as long as the candidates."""
        if function is not measure:
            return None
        subjects = arguments[0].subjects
        time.sleep(MEASURING_S * len(subjects))
        return [Result((1.0,))] * len(subjects)


class Sleepers:
    """Stands for the boards of a lab; see `tuning.board_pool.BoardPool`."""

    def __init__(self, count: int) -> None:
        self._free: SimpleQueue[SimpleNamespace] = SimpleQueue()
        for _ in range(count):
            self._free.put(SimpleNamespace(board=local_board(), worker=Sleeper(), key="sleeper"))

    @contextmanager
    def take(self) -> Iterator[SimpleNamespace]:
        """Yield one that is free."""
        board = self._free.get()
        try:
            yield board
        finally:
            self._free.put(board)

    @contextmanager
    def tracker(self) -> Iterator[None]:
        """Yield nothing: nobody is asked."""
        yield None

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Run:
    """Stands for the run of a task: proposes numbers, and has them measured."""

    context: SimpleNamespace
    trials: int = 0
    best_ms: float = 1.0
    failures: Counter[str] = field(default_factory=Counter)

    def propose(self, count: int) -> Sequence[int]:
        """Return so many."""
        return range(count)

    def measure(self, proposals: Sequence[int]) -> Sequence[Result]:
        """Measure them."""
        built = [Built(CANDIDATE, Path("library.so"))] * len(proposals)
        return self.context.bench.runner.run(SimpleNamespace(workload="", flops=1), built)

    def record(self, proposals: Sequence[int], _measured: object) -> None:
        """Count them."""
        self.trials += len(proposals)

    def learn(self, _proposals: object, _measured: object) -> None:
        """Do nothing."""


def seconds(boards: int) -> float:
    """Return how long a search with so many boards takes, for as many trials for each."""
    trials = TRIALS_PER_BOARD * boards
    made: Any = BoardRunner(
        [local_board()] * boards,
        SimpleNamespace(host="", port=0),
        SimpleNamespace(threads=1, cpu=""),
        TuneOptions(),
        lambda _event: None,
    )
    made.pool = Sleepers(boards)
    made.expect(SimpleNamespace(workload=""), [None])
    run: Any = Run(SimpleNamespace(bench=SimpleNamespace(runner=made)))
    begun = time.monotonic()
    with pipeline() as search:
        search.run([run], RoundRobin(trials, [Prospect(1, 1.0, None)]))
    took = time.monotonic() - begun
    made.close()
    assert run.trials == trials  # noqa: S101 - it measured what it was told to
    return took


def main() -> None:
    """Print one JSON document."""
    runner.wait_for_server = lambda *_arguments: None  # type: ignore[assignment, return-value]
    alone = seconds(1)
    document = {}
    for boards in (1, 2, 4, 8, 16):
        took = seconds(boards)
        document[boards] = {"seconds": round(took, 2), "times": round(boards * alone / took, 2)}
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
