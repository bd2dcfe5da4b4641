"""Compares the finalists of a task with its default by timing them alternately once more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Generic

from toolchain.records.record import Record, now
from toolchain.tasks.evaluator import BuiltCandidate, Runner
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import P, Result
from toolchain.tuning.judging.gain import fastest

ROUNDS = 5
"""Number of rounds in which finalists are compared, if there is time."""

LEAST_ROUNDS = 3
"""Fewer rounds do not tell a gain of a few percent from noise."""


@dataclass(frozen=True)
class Measured(Generic[P]):
    """A candidate that was measured, with its record and result."""

    point: P
    record: Record
    result: Result


@dataclass(frozen=True)
class Finalist(Measured[P]):
    """A candidate that takes part in the final comparison, with its library."""

    built: BuiltCandidate


@dataclass(frozen=True)
class Confirmed:
    """The outcome of a comparison: the winner's record, and the default's time in ms."""

    choice: Record
    default_ms: float


def choice_of(
    record: Record, run_ms: Sequence[float], board: str = "", *, modelled: bool | None = None
) -> Record:
    """Return the confirmed record of a winner.

    Parameters
    ----------
    run_ms
        Its times in the comparison, in ms.
    board
        Board of the comparison; empty: the board in `record`.
    modelled
        Whether the times of the comparison come from a model; None: as in `record`.
    """
    said = record.provenance
    provenance = replace(
        said, board=board or said.board, modelled=said.modelled if modelled is None else modelled
    )
    return replace(record, run_ms=tuple(run_ms), confirmed=True, created=now(), provenance=provenance)


def result_of(record: Record) -> Result:
    """Return the times or failure in a record as a result."""
    return Result(record.run_ms, record.failure, modelled=record.provenance.modelled)


def confirm(
    task: Task, finalists: Sequence[Finalist[Any]], runner: Runner, rounds: int = ROUNDS
) -> Confirmed | None:
    """Time the finalists again and return the winner, None if all fail; the first finalist is the default.

    The fastest of many noisy times is too good by chance. So all finalists are measured again, alternately
    and on one board, and must beat the default by more than the noise. A finalist that fails now is dropped.

    A round counts once, with the median of its repeats: these run in one session, one after the other, and
    have its address layout, clock and neighbours in common.
    """
    times: list[list[float]] = [[] for _ in finalists]
    failed: set[int] = set()
    measured = runner.compare(task, [finalist.built for finalist in finalists], rounds)
    for results in measured:
        for place, result in enumerate(results):
            if result.failure:
                failed.add(place)
            else:
                times[place].append(median(result.run_ms))
    standing = [place for place in range(len(finalists)) if place not in failed]
    if not standing:
        return None
    winner = fastest({place: times[place] for place in standing})
    board = next((result[winner].board for result in measured if result[winner].board), "")
    modelled = any(result[winner].modelled for result in measured)
    choice = choice_of(finalists[winner].record, times[winner], board, modelled=modelled)
    return Confirmed(choice, fmean(times[0] or finalists[0].record.run_ms))
