"""The report of a tuning run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toolchain.files import atomic
from toolchain.quantities import counted
from toolchain.records.store import RecordStore
from toolchain.reports.charts import tuning_curves
from toolchain.reports.curves import Curve, curves
from toolchain.reports.page import model_name, render
from toolchain.reports.runs import Run, read_run
from toolchain.reports.source import of_store
from toolchain.reports.tuning_charts import before_and_after, best_by_time
from toolchain.tuning.result import TuneResult


def write_tuning_report(path: Path, run: Run, model: str = "", verdict: str = "") -> None:
    """Write the report as one HTML file atomically; equal runs give equal bytes.

    Parameters
    ----------
    model
        The tuned model; empty if unknown.
    verdict
        See `tuning_page`.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    atomic.write_text(path, tuning_page(run, model, verdict))


def report_result(path: Path, store: RecordStore, result: TuneResult, model: str) -> None:
    """Write the report of a run that has just ended.

    Raises
    ------
    ToolchainError
        The file system refused, or the store.
    """
    source = of_store(store, result.run)
    weights = {tuned.task.workload: tuned.task.weight for tuned in result.tasks}
    compared = {tuned.task.workload: (tuned.default_ms, tuned.best_ms) for tuned in result.tasks}
    run = read_run(source.records, source.names, result.run, weights, compared)
    boards = [replace(board, in_use=_in_use(result, board.name)) for board in run.boards]
    write_tuning_report(path, replace(run, boards=tuple(boards)), model, result.verdict.text)


def tuning_page(run: Run, model: str = "", verdict: str = "") -> str:
    """Return the report as HTML.

    Parameters
    ----------
    model
        The tuned model; empty if unknown: then the heaviest task names the page.
    verdict
        `TuneResult.verdict` in words; empty if unknown: then it follows from the records.
    """
    found = _curves(run)
    drawn = any(curve.relative for curve in found)
    timed = [task for task in run.tasks if task.before_ms and task.after_ms]
    return render(
        "tuning.html.j2",
        run=run,
        title=model_name(model) or _heaviest(run),
        verdict=verdict or _verdict(run),
        before_ms=_network(run, [task.before_ms for task in run.tasks]),
        after_ms=_network(run, [task.after_ms for task in run.tasks]),
        by_trial=tuning_curves(found) if drawn else "",
        by_time=best_by_time(run.tasks) if drawn else "",
        before_and_after=before_and_after(timed) if timed else "",
    )


def _in_use(result: TuneResult, board: str) -> float | None:
    seconds = result.in_use_s.get(board)
    return None if seconds is None or not result.search_s else seconds / result.search_s


def _heaviest(run: Run) -> str:
    """Return a name for a network of which only the tasks are known, the heaviest first."""
    more = f" and {counted(len(run.tasks) - 1, 'more task')}" if len(run.tasks) > 1 else ""
    return f"{run.tasks[0].name}{more}"


def _verdict(run: Run) -> str:
    """Return in words what builds use after a run, as far as its records tell it."""
    changed = sum(task.choice != "default" for task in run.tasks)
    if not all(task.confirmed for task in run.tasks):
        return "the run ended before its last comparison; builds use the fastest that was measured"
    if not changed:
        return "the defaults stay: nothing beat them in the last comparison"
    return f"builds use something else than the default for {changed} of {counted(len(run.tasks), 'task')}"


def _curves(run: Run) -> list[Curve]:
    tasks = [{"id": task.id, "name": task.name, "default_ms": task.default_ms} for task in run.tasks]
    trials = [{"task": task.id, "ms": trial.ms} for task in run.tasks for trial in task.trials]
    return curves(tasks, trials)


def _network(run: Run, times: list[float | None]) -> float | None:
    """Return the milliseconds of all tasks, weighted; None if a time or weight is unknown."""
    weighted = [
        task.weight * ms for task, ms in zip(run.tasks, times, strict=True) if task.weight is not None and ms
    ]
    return sum(weighted) if len(weighted) == len(run.tasks) else None
