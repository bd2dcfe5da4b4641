"""How long trials take: as an earlier run had it, else at most as long as they are given."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime

from toolchain.boards.board import Board
from toolchain.devices.device import CPU
from toolchain.measuring.deadlines import deadline
from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tasks.task import Task
from toolchain.tuning.options import TuneOptions

_ENOUGH = 8  # trials of a run that a pace is taken from: a batch


@dataclass(frozen=True)
class Pace:
    """Seconds that one trial takes, and how that is known.

    Attributes
    ----------
    most
        It is no estimate, but the longest that a trial may take.
    """

    seconds: float
    reason: str
    most: bool = False


def earlier_pace(store: RecordStore, key: RecordKey, runner: str, others: Container[str]) -> Pace | None:
    """Return the pace of the last run of a runner for the same target and class; None: there is none.

    That is the time from the first default to the last trial, over the trials: searching, building and
    whatever the run waited for included.

    Parameters
    ----------
    key
        Of any task: what code is made for, and where it is measured.
    others
        The runners that leave their names in records where a board would leave its own.
    """

    def alike(record: Record) -> bool:
        who = record.provenance.board.partition(" ")[0]
        mine = who == runner if runner in others else who not in others
        return mine and _place(record.key) == _place(key)

    for run, _last in store.runs():
        if not all(map(alike, store.of_run(run, 1))):
            continue  # a run is of one target, one class and one runner
        of_run = [record for record in store.of_run(run) if alike(record) and not record.confirmed]
        trials = [record for record in of_run if record.provenance.trial is not None]
        if len(trials) >= _ENOUGH:
            times = _times(of_run)
            seconds = (max(times) - min(times)) / len(trials)
            day = datetime.fromtimestamp(min(times)).astimezone().strftime("%Y-%m-%d %H:%M")
            return Pace(seconds, f"{seconds:.1f} s a trial, as in the run of {day}")
    return None


def usual_pace(runner: str, seconds: float) -> Pace:
    """Return what a runner that asks no board usually takes."""
    return Pace(seconds, f"--runner {runner} takes some {seconds:g} s a trial; no run of it was timed yet")


def longest_pace(tasks: Sequence[Task], board: Board, options: TuneOptions) -> Pace:
    """Return the mean of the tasks' deadlines."""
    limits = [trial_limit_s(task, board, options) for task in tasks]
    seconds = sum(limits) / max(1, len(limits))
    return Pace(seconds, f"a trial is given {seconds:.0f} s; no run on this class was timed yet", most=True)


def _place(key: RecordKey) -> tuple[str, ...]:
    return (key.triple, key.cpu, str(key.threads), key.board_class, key.device)


def _times(records: Sequence[Record]) -> list[float]:
    return [datetime.fromisoformat(record.created).timestamp() for record in records]


def trial_limit_s(task: Task, board: Board, options: TuneOptions, cases: int = 1, device: str = CPU) -> float:
    """Return the seconds that one candidate of a task is given.

    Parameters
    ----------
    cases
        How many draws of inputs it computes before it is timed.
    device
        Kind of what computes: a driver compiles when a kernel runs for the first time.
    """
    return deadline(
        task.flops,
        board.profile,
        emulated=board.emulated,
        device=device,
        # the comparisons, the evaluator's own warm-up, and what it times
        runs=cases + 1 + options.number * options.repeat,
        extra_s=options.repeat * options.min_repeat_ms / 1e3,
        timeout=options.timeout_s,
    ).seconds
