"""Reconstructs a tuning run from its records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.records.record import Record
from toolchain.tasks.task import ID_LENGTH

_LISTED = 8  # runs that an error names


@dataclass(frozen=True)
class RunTrial:
    """One candidate: seconds since the start of the run, and its milliseconds or failure."""

    seconds: float
    ms: float | None
    failure: str | None
    board: str


@dataclass(frozen=True)
class RunTask:
    """One task of a run.

    Attributes
    ----------
    weight
        How often the network computes the task; None if unknown.
    default_ms, chosen_ms
        Times in the search, where each candidate was measured alone: of the default, and of the candidate
        that builds use after the run. None if this run did not measure it alone.
    compared
        The same times in the final comparison; None if unknown.
    choice
        What builds use after the run: `default` or the kind of the record.
    confirmed
        Whether the final comparison measured it beside the default; an interrupted run has none.
    """

    id: str
    name: str
    weight: int | None
    default_ms: float | None
    chosen_ms: float | None
    choice: str
    confirmed: bool
    trials: tuple[RunTrial, ...]
    compared: tuple[float, float] | None = None

    @property
    def before_ms(self) -> float | None:
        """Time of the default, from the final comparison if known."""
        return self.compared[0] if self.compared else self.default_ms

    @property
    def after_ms(self) -> float | None:
        """Time of the candidate that builds use after the run, from the final comparison if known."""
        return self.compared[1] if self.compared else self.chosen_ms

    @property
    def failed(self) -> int:
        """Number of failed trials."""
        return sum(trial.failure is not None for trial in self.trials)


@dataclass(frozen=True)
class BoardUse:
    """The use of a board in a run.

    Attributes
    ----------
    in_use
        Share of the search time in which the board had a session; None if unknown.
    """

    name: str
    trials: int
    failed: int
    coolest_c: float | None
    hottest_c: float | None
    governors: tuple[str, ...]
    in_use: float | None = None


@dataclass(frozen=True)
class Run:
    """A tuning run; `begun` is ISO 8601 in UTC.

    Attributes
    ----------
    target
        Target and threads, such as `x86-64-v3, 2 threads`.
    modelled
        The times come from a model instead of a measurement.
    """

    id: str
    begun: str
    seconds: float
    board_class: str
    target: str
    modelled: bool
    tasks: tuple[RunTask, ...]
    boards: tuple[BoardUse, ...]

    @property
    def trials(self) -> int:
        """Number of measured candidates."""
        return sum(len(task.trials) for task in self.tasks)

    @property
    def failures(self) -> dict[str, int]:
        """Number of failures by class, the most frequent first."""
        counted = Counter(trial.failure for task in self.tasks for trial in task.trials if trial.failure)
        return dict(counted.most_common())


def read_run(
    records: Sequence[Record],
    names: Mapping[str, str],
    run: str | None = None,
    weights: Mapping[str, int] | None = None,
    compared: Mapping[str, tuple[float, float]] | None = None,
) -> Run:
    """Reconstruct a run from records.

    Parameters
    ----------
    records
        Records of any runs.
    names
        `Record.function` -> name of the task.
    run
        Prefix of the run's id; None for the last run.
    weights
        Workload -> how often the network computes it, as far as known.
    compared
        Workload -> milliseconds of default and choice in the final comparison, as far as known. Records have
        only the time of the choice, which must not be compared with times of the search: in the network the
        caches are in another state than for a candidate that runs alone.

    Raises
    ------
    UsageError
        There is no such run, or the prefix is ambiguous.
    """
    last = {record.provenance.run: record.created for record in records}  # the oldest come first
    identity = chosen_run(list(last.items()), run)
    of_run = [record for record in records if record.provenance.run == identity]
    measured = [record for record in of_run if not record.confirmed] or of_run
    begun = min(_time(record) for record in measured)
    first = of_run[0]
    by_task: defaultdict[str, list[Record]] = defaultdict(list)
    for record in of_run:
        by_task[record.key.workload].append(record)
    tasks = [
        _task(of_task, names, begun, (weights or {}).get(workload), (compared or {}).get(workload))
        for workload, of_task in by_task.items()
    ]
    return Run(
        identity,
        min(record.created for record in measured),
        max(_time(record) for record in of_run) - begun,
        first.key.board_class,
        f"{first.key.device or first.key.cpu}, {counted(first.key.threads, 'thread')}",
        first.provenance.modelled,
        tuple(tasks),
        tuple(_boards([record for record in of_run if _is_trial(record)])),
    )


def chosen_run(runs: Sequence[tuple[str, str]], run: str | None) -> str:
    """Return the id of a run.

    Parameters
    ----------
    runs
        The ids of all runs, with the creation times of their last records.
    run
        Prefix of the id; None for the last run.

    Raises
    ------
    UsageError
        There is no such run, or the prefix is ambiguous.
    """
    last = dict(runs)
    known = sorted(last, key=lambda identity: last[identity], reverse=True)
    listed = ", ".join(f"{identity[:ID_LENGTH]} ({last[identity][:16]})" for identity in known[:_LISTED])
    if not known:
        raise UsageError("there are no records to report on", "`toolchain tune` makes some")
    if run is None:
        return known[0]
    fitting = [identity for identity in known if identity.startswith(run)]
    if len(fitting) != 1:
        problem = "means several runs" if fitting else "is no run of these records"
        raise UsageError(f"--run {run}: {problem}", f"the last runs are {listed}")
    return fitting[0]


def _task(
    of_task: Sequence[Record],
    names: Mapping[str, str],
    begun: float,
    weight: int | None,
    compared: tuple[float, float] | None,
) -> RunTask:
    trials = [record for record in of_task if _is_trial(record)]
    default = next(
        (r for r in of_task if r.provenance.trial is None and not r.confirmed and not r.failure), None
    )
    confirmed = next((record for record in reversed(of_task) if record.confirmed), None)
    timed = [record for record in (default, *trials) if record is not None and not record.failure]
    chosen = confirmed or min(timed, key=lambda record: fmean(record.run_ms), default=None)
    is_default = chosen is not None and default is not None and chosen.digest == default.digest
    alone = [record.best_ms for record in timed if chosen is not None and record.digest == chosen.digest]
    workload = of_task[0].key.workload
    return RunTask(
        workload[:ID_LENGTH],
        names.get(of_task[0].function, workload),
        weight,
        default.best_ms if default else None,
        alone[-1] if alone else None,
        "default" if is_default else chosen.kind if chosen else "",
        confirmed is not None,
        tuple(
            RunTrial(_time(record) - begun, record.best_ms, record.failure, record.provenance.board)
            for record in trials
        ),
        compared,
    )


def _boards(trials: Sequence[Record]) -> list[BoardUse]:
    boards = []
    for name in sorted({record.provenance.board for record in trials}):
        of_board = [record for record in trials if record.provenance.board == name]
        warm = [r.provenance.temperature_c for r in of_board if r.provenance.temperature_c is not None]
        governors = tuple(sorted({record.provenance.governor or "" for record in of_board} - {""}))
        failed = sum(record.failure is not None for record in of_board)
        boards.append(
            BoardUse(name, len(of_board), failed, min(warm, default=None), max(warm, default=None), governors)
        )
    return boards


def _is_trial(record: Record) -> bool:
    """Whether a record is a trial, neither a default nor a confirming measurement."""
    return record.provenance.trial is not None and not record.confirmed


def _time(record: Record) -> float:
    return datetime.fromisoformat(record.created).timestamp()
