"""How a search gets faster with more boards: 1, 2, 4, 8 and 16 that measure kernels which sleep.

    python benchmarks/tuning_boards.py                 kernels of 100 and of 20 ms
    python benchmarks/tuning_boards.py --kernel 200    of another length

Boards are folders of this host, each with a real `edge-rt serve` under the lab; the loop, the scheduler, the
runner with its watch over the boards, workers, tracker, gates, sessions and uploads are the real ones, too.
A kernel is a function in C that sleeps, so that boards do not compete for this host's cores as they compute;
whatever else a measurement costs, they do: `busy` is the share of the cores that anything used. All
candidates are built before; searching takes no time. A candidate takes five calls: one is compared, one warms
up, three are timed.

Goal: N boards measure 0.9 N times as much as one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tuners.c_function import asleep
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.files.scratch import scratch_folder
from toolchain.lowering.fused import probe_for
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import write_case
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.pipeline import pipeline
from toolchain.tuning.run.preflight import preflight
from toolchain.tuning.schedulers.scheduler import Prospect, RoundRobin

COUNTS = (1, 2, 4, 8, 16)
TRIALS_PER_BOARD = 24
TASK: Any = SimpleNamespace(id="asleep", name="asleep", workload="asleep", flops=1)


@dataclass
class Run:
    """Stands for the run of a task: proposes what is built already, and has it measured."""

    context: SimpleNamespace
    built: Sequence[BuiltCandidate]
    trials: int = 0
    best_ms: float = 1.0
    failures: Counter[str] = field(default_factory=Counter)

    def propose(self, count: int) -> Sequence[BuiltCandidate]:
        """Return so many."""
        return self.built[:count]

    def measure(
        self, proposals: Sequence[BuiltCandidate], _over: Callable[[], bool]
    ) -> Sequence[tuple[BuiltCandidate, Result]]:
        """Measure them."""
        results: Sequence[Result] = self.context.evaluator.runner.run(TASK, proposals)
        return list(zip(proposals, results, strict=True))

    def record(self, _proposals: object, measured: Sequence[tuple[BuiltCandidate, Result]]) -> None:
        """Count them."""
        self.trials += len(measured)
        self.failures.update(result.message for _built, result in measured if result.failure)

    def learn(self, _proposals: object, _measured: object) -> None:
        """Do nothing."""


def searches(boards: Sequence[Board], kernels_ms: Sequence[int]) -> dict[int, dict[str, float]]:
    """Return by kernels how a search on boards went, the same number of trials for each board."""
    target = target_for(boards[0].profile, None, 1)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        evaluator = stack.enter_context(board_evaluator(boards, target, TuneOptions(), tell))
        preflight(probe_for(target.target), evaluator, folder)  # starts all workers
        case = write_case(folder, "case", {})
        case.expect([np.zeros(1, np.int32)])
        evaluator.runner.expect(TASK, [case])
        rows = {}
        for ms in kernels_ms:
            built = evaluator.builder.build([asleep(ms / 1e3)] * max(COUNTS))
            rows[ms] = search(evaluator, built, TRIALS_PER_BOARD * len(boards))
        return rows


def search(evaluator: Evaluator, built: Sequence[BuiltCandidate], trials: int) -> dict[str, float]:
    """Search once."""
    run: Any = Run(SimpleNamespace(evaluator=evaluator, listener=tell), built)
    before = sum(evaluator.runner.in_use_s.values())
    psutil.cpu_percent()
    begun = time.monotonic()
    with pipeline() as loop:
        loop.run([run], RoundRobin(trials, [Prospect(1, 1.0, None)]))
    took = time.monotonic() - begun
    busy = psutil.cpu_percent() / 100
    in_use = (sum(evaluator.runner.in_use_s.values()) - before) / len(evaluator.runner.names) / took
    if run.failures or run.trials != trials or evaluator.runner.lanes < len(evaluator.runner.names):
        raise AssertionError((run.failures, run.trials, evaluator.runner.lanes))
    return {"seconds": took, "per_second": trials / took, "in_use": in_use, "busy": busy}


def tell(event: Event) -> None:
    """Print what the user of a run would see of its boards."""
    if isinstance(event, Notice):
        print(event.text, file=sys.stderr)


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", type=int, nargs="*", default=[100, 20], help="milliseconds")
    parser.add_argument("--boards", type=int, nargs="*", default=list(COUNTS))
    given = parser.parse_args()
    said: dict[int, dict[int, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as state:
        os.environ["TOOLCHAIN_STATE_DIR"] = state
        names = [f"sleeper-{number}" for number in range(max(given.boards))]
        boards = [emulated.start("x86_64", kind="process", name=name) for name in names]
        alone: dict[int, float] = {}
        for count in given.boards:
            for ms, row in searches(boards[:count], given.kernel).items():
                row["times"] = row["per_second"] / alone.setdefault(ms, row["per_second"])
                said.setdefault(ms, {})[count] = {name: round(number, 2) for name, number in row.items()}
    print(json.dumps({"trials_per_board": TRIALS_PER_BOARD, "kernel_ms": said}, indent=1))


if __name__ == "__main__":
    main()
