"""Searches that begin with what other tasks have shown, beside the same that begin with nothing."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import median
from typing import Any

from benchmarks.tuners.replay import Prepare, Table, trials
from toolchain.tasks.backend import MakeTuner
from toolchain.tasks.tuner import Tuner
from toolchain.tuning.run.experience import experience_of

RECORDS = 64  # of each other task, by chance


def after(others: Sequence[Table]) -> Prepare:
    """Return what tells a tuner the records of other tasks; the default is withheld."""

    def prepare(tuner: Tuner[Any], space: Table, seed: int) -> None:
        random = Random(seed)  # noqa: S311  # no secret hangs on it
        histories = [table.foreign(random.sample(table.points, min(RECORDS, table.size))) for table in others]
        tuner.transfer(experience_of(histories, space))

    return prepare


def nothing(_tuner: Tuner[Any], _space: Table, _seed: int) -> None:
    """Tell a tuner nothing, the default withheld too."""


def compared(
    spaces: Sequence[Table], space: Table, make: MakeTuner[Any], seeds: int
) -> tuple[list[int], list[int]]:
    """Return the trials of each seed without and with the records of all other spaces."""
    others = [other for other in spaces if other is not space]
    return tuple(  # type: ignore[return-value]
        [len(trials(space, make, seed, 1 << 30, prepare)) for seed in range(1, seeds + 1)]
        for prepare in (nothing, after(others))
    )


def summed(found: tuple[list[int], list[int]]) -> tuple[float, float, float]:
    """Return the medians without and with, and the second over the first."""
    without, with_records = (median(trials) for trials in found)
    return without, with_records, with_records / without
