"""Compares the two ways in which a live run measures candidates: call by call, and by plans.

    python benchmarks/tuning_ways.py --board local --tasks 4 --points 16 --rounds 4

Both measure the same libraries on the same board, in turns: calls, plans, plans, calls, and so on, so that
what else the machine does meets both. Prints ratios, plans to calls: candidates per minute, and the times of
those candidates that both ways measured. Verdicts (the kind of failure, or none) must be equal.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import median, quantiles

from toolchain.backends.table import backend_for
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.targets.target import BoardTarget
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import run_cases
from toolchain.tuning.boards.planned import SWITCH
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans.operands import redrawn

WAYS = ("calls", "plans")


@dataclass
class Tally:
    """What was measured in one way.

    Attributes
    ----------
    ms
        Fastest time of each round, by the number of a candidate.
    """

    seconds: float = 0.0
    candidates: int = 0
    ms: dict[int, list[float]] = field(default_factory=dict)
    verdicts: dict[int, set[str | None]] = field(default_factory=dict)

    def add(self, first: int, results: Sequence[Result], seconds: float) -> None:
        """Add the results of a round, whose candidates are numbered from `first`."""
        self.seconds += seconds
        self.candidates += len(results)
        for number, result in enumerate(results, first):
            self.verdicts.setdefault(number, set()).add(result.failure)
            if result.run_ms:
                self.ms.setdefault(number, []).append(min(result.run_ms))


@contextmanager
def evaluator_of(way: str, board: Board, target: BoardTarget, how: TuneOptions) -> Iterator[Evaluator]:
    """Yield what measures in one way."""
    os.environ[SWITCH] = "1" if way == "plans" else ""
    with board_evaluator([board], target, how, lambda _event: None) as evaluator:
        yield evaluator


def in_turns(rounds: int) -> list[str]:
    """Return the ways in the order of the rounds: each comes first as often as the other."""
    return [way for turn in range(rounds) for way in (WAYS if turn % 2 == 0 else WAYS[::-1])]


def compared(tallies: dict[str, Tally]) -> dict[str, object]:
    """Return the numbers of both ways, and the ratios of plans to calls."""
    calls, plans = (tallies[way] for way in WAYS)
    minute = {way: 60 * each.candidates / each.seconds for way, each in tallies.items()}
    both = sorted(calls.ms.keys() & plans.ms.keys())
    ratios = [median(plans.ms[number]) / median(calls.ms[number]) for number in both]
    quarters = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "candidates": len(calls.verdicts),
        "candidates_per_minute": {way: round(value, 1) for way, value in minute.items()},
        "candidates_per_minute_ratio": round(minute["plans"] / minute["calls"], 3),
        "times_ratio_median": round(median(ratios), 3) if ratios else None,
        "times_ratio_quartiles": [round(quarters[0], 3), round(quarters[2], 3)] if ratios else None,
        "other_verdicts": {
            number: {way: sorted(map(str, tallies[way].verdicts[number])) for way in WAYS}
            for number in calls.verdicts
            if calls.verdicts[number] != plans.verdicts[number]
        },
    }


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--board", default="local")
    parser.add_argument("--model", default="zoo:resnet-18")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layout", default="packed")
    parser.add_argument("--tasks", type=int, default=4, help="so many of the heaviest")
    parser.add_argument("--points", type=int, default=16, help="of each task, the default among them")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--min-repeat-ms", type=int, default=TuneOptions().min_repeat_ms)
    given = parser.parse_args()
    board = find_board(given.board)
    model = load_model(given.model, ModelOptions())
    how = TuneOptions(threads=1, min_repeat_ms=given.min_repeat_ms)
    backend = backend_for(board.profile, CodeOptions(layout=given.layout, device=given.device))
    target = backend.target(None, 1, integers=model.integral)
    tallies = {way: Tally() for way in WAYS}
    with (
        backend.lower(model, target) as network,
        run_cases(print) as true_cases,
        run_cases(print) as drawn_cases,
        evaluator_of("calls", board, target, how) as calls,
        evaluator_of("plans", board, target, how) as plans,
    ):
        evaluators = {"calls": (calls, true_cases), "plans": (plans, drawn_cases)}
        first = 0
        for task in network.tasks[: given.tasks]:
            space, random = network.space(task), Random(given.seed)  # noqa: S311 - the same points each time
            points = {space.default(): None} | {space.sample(random): None for _ in range(given.points - 1)}
            candidates = [space.candidate(point) for point in points]
            true_cases.begin(task, network.reference(task))
            drawn_cases.begin(task, redrawn(candidates[0], network.reference(task)))
            for evaluator, cases in evaluators.values():
                evaluator.runner.expect(task, cases.of(task))
            built = [
                each
                for begin in range(0, len(candidates), 8)
                for each in calls.builder.build(candidates[begin : begin + 8])
            ]
            for way in in_turns(given.rounds):
                results, seconds = timed(evaluators[way][0], task, built)
                tallies[way].add(first, results, seconds)
            first += len(built)
    print(json.dumps({"arguments": vars(given), **compared(tallies)}, indent=1))


def timed(evaluator: Evaluator, task: Task, built: Sequence[BuiltCandidate]) -> tuple[list[Result], float]:
    """Measure candidates; return their results, and the seconds that it took."""
    begun = time.monotonic()
    results = evaluator.runner.run(task, built)
    return results, time.monotonic() - begun


if __name__ == "__main__":
    main()
