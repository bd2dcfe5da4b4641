"""Estimates how long a trial takes, from earlier runs or from deadlines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from toolchain.boards.board import Board
from toolchain.devices.device import CPU
from toolchain.measuring.deadlines import deadline, given_deadline
from toolchain.records.record import Record, RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.task import Task
from toolchain.tuning.options import OFFLINE, TuneOptions

_ENOUGH = 8  # least number of trials in a run that a pace is computed from: one batch


@dataclass(frozen=True)
class Pace:
    """Seconds for one trial, and where the number comes from.

    Attributes
    ----------
    reason
        Explanation for the user.
    most
        Whether the number is an upper limit, not an estimate.
    """

    seconds: float
    reason: str
    most: bool = False


def earlier_pace(store: RecordStore, key: RecordKey, runner: str, others: Iterable[str]) -> Pace | None:
    """Return the pace of the last run with the same runner, target and class; None if there was no such run.

    It is the time from the first default to the last trial, divided by the number of trials: so it includes
    searching, building and waiting.

    Parameters
    ----------
    key
        Key of any task of the run; its target and board class are compared.
    others
        Runners without boards, whose records name the runner instead of a board.
    """

    def alike(record: Record) -> bool:
        who = record.provenance.board.partition(" ")[0]
        mine = who == runner if runner in others else who not in others
        return mine and _place(record.key) == _place(key)

    # What was measured without this host was stored in one go.
    others = {*others, OFFLINE}
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
    """Return the usual pace of a runner that needs no board."""
    return Pace(seconds, f"--runner {runner} takes some {seconds:g} s a trial; no run of it was timed yet")


def longest_pace(tasks: Sequence[Task], board: Board, options: TuneOptions) -> Pace:
    """Return the mean deadline of the tasks' trials as an upper limit."""
    limits = [trial_limit_s(task, board, options) for task in tasks]
    seconds = sum(limits) / max(1, len(limits))
    return Pace(seconds, f"a trial is given {seconds:.0f} s; no run on this class was timed yet", most=True)


def _place(key: RecordKey) -> tuple[str, ...]:
    return (key.triple, key.cpu, str(key.threads), key.board_class, key.device)


def _times(records: Sequence[Record]) -> list[float]:
    return [datetime.fromisoformat(record.created).timestamp() for record in records]


def trial_limit_s(task: Task, board: Board, options: TuneOptions, cases: int = 1, device: str = CPU) -> float:
    """Return the deadline for one candidate of a task, in seconds.

    Parameters
    ----------
    cases
        Number of cases that it computes before it is timed.
    device
        Kind of the device; some drivers compile a kernel when it first runs, which takes longer.
    """
    if options.timeout_s is not None:
        return given_deadline(options.timeout_s).seconds
    return deadline(
        task.flops,
        board.profile,
        emulated=board.emulated,
        device=device,
        # the comparisons, the evaluator's own warm-up, and what it times
        runs=cases + 1 + options.number * options.repeat,
        extra_s=options.repeat * options.min_repeat_ms / 1e3,
    ).seconds
