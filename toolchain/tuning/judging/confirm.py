"""The last word on a task: its finalists measured again, in turn, beside the default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Generic

from toolchain.records.record import Record, now
from toolchain.tasks.evaluator import BuiltCandidate, Runner
from toolchain.tasks.space import P
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.judging.gain import fastest

ROUNDS = 3
"""In which finalists are compared, where there is time."""


@dataclass(frozen=True)
class Measured(Generic[P]):
    """A candidate that ran."""

    point: P
    record: Record
    result: Result


@dataclass(frozen=True)
class Finalist(Measured[P]):
    """A candidate that may become the task's choice."""

    built: BuiltCandidate


@dataclass(frozen=True)
class Confirmed:
    """The winner's record and the default's milliseconds, both of one comparison."""

    choice: Record
    default_ms: float


def choice_of(
    record: Record, run_ms: Sequence[float], board: str = "", *, modelled: bool | None = None
) -> Record:
    """Return the record of a winner.

    Parameters
    ----------
    run_ms
        What it took in the last comparison.
    board
        Where that was; empty: where it was measured before.
    modelled
        Whether the comparison was a model's, whoever judged it before; None: the times are the record's own.
    """
    said = record.provenance
    provenance = replace(
        said, board=board or said.board, modelled=said.modelled if modelled is None else modelled
    )
    return replace(record, run_ms=tuple(run_ms), confirmed=True, created=now(), provenance=provenance)


def result_of(record: Record) -> Result:
    """Return what a record says of a candidate."""
    return Result(record.run_ms, record.failure, modelled=record.provenance.modelled)


def confirm(
    task: Task, finalists: Sequence[Finalist[Any]], runner: Runner, rounds: int = ROUNDS
) -> Confirmed:
    """Compare the finalists once more; the first is the default.

    The smallest of many noisy readings flatters the fastest candidate, so every finalist is
    measured afresh, in turn and on one board, and another than the default must win by more than the noise.
    A finalist that fails now is out.
    """
    times: list[list[float]] = [[] for _ in finalists]
    failed: set[int] = set()
    measured = runner.compare(task, [finalist.built for finalist in finalists], rounds)
    for results in measured:
        for place, result in enumerate(results):
            times[place].extend(result.run_ms)
            if result.failure:
                failed.add(place)
    standing = [place for place in range(len(finalists)) if place not in failed]
    winner = fastest({place: times[place] for place in standing})
    board = next((result[winner].board for result in measured if result[winner].board), "")
    modelled = any(result[winner].modelled for result in measured)
    choice = choice_of(finalists[winner].record, times[winner], board, modelled=modelled)
    return Confirmed(choice, fmean(times[0] or finalists[0].record.run_ms))
