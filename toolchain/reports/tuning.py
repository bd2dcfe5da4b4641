"""The report of a tuning run, and its plots of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolchain.files import atomic
from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms, time_unit
from toolchain.records.store import RecordStore
from toolchain.reports.charts import Curve, best_curves, tuning_curves
from toolchain.reports.figures import BAR_PX, ROWS, SERIES, Figure, linear, rows_px
from toolchain.reports.page import model_name, render
from toolchain.reports.runs import Run, RunTask, read_run
from toolchain.reports.source import of_store
from toolchain.tuning.result import TuneResult

# The plots of a tuning run, each as SVG.

_BARS = 20  # tasks shown by themselves


def best_by_time(tasks: Sequence[RunTask]) -> str:
    """Plot the total time of all tasks, with the best candidate of each so far, over the seconds of the run.

    Each task counts by its weight, or once if weights are unknown.
    """
    known = [(task, task.default_ms) for task in tasks if task.default_ms]
    total = sum(_weight(task) * default_ms for task, default_ms in known)
    best = {task.id: default_ms for task, default_ms in known}
    moments = sorted(
        (trial.seconds, task.id, _weight(task), trial.ms)
        for task, _ in known
        for trial in task.trials
        if trial.ms
    )
    seconds, levels = [0.0], [1.0]
    now_ms = total
    for moment, task_id, weight, ms in moments:
        if ms < best[task_id]:
            now_ms -= weight * (best[task_id] - ms)
            best[task_id] = ms
        seconds.append(moment)
        levels.append(now_ms / total)
    failed = [trial.seconds for task in tasks for trial in task.trials if trial.failure]
    stays = "; stays at 1.00" if min(levels) == 1.0 else ""
    weighted = all(task.weight is not None for task in tasks)
    figure = Figure(
        "best-by-time",
        "Time of all tasks with the best so far relative to the defaults, over seconds",
        f"{levels[-1]:.2f} of the defaults after {seconds[-1]:.0f} s; {counted(len(failed), 'trial')} failed",
        210,
        above="all tasks / default" if weighted else "all tasks, once each / default",
    )
    low = min(levels)
    plot = figure.plot(
        linear(0, 1.015 * max(seconds[-1], *failed, 1e-3)),
        linear(min(0.95, low - 0.05 * (1.05 - low)), 1.02),
        f"seconds since the first default was measured (x: a trial failed){stays}",
    )
    plot.line((0, 1.0), (plot.x.high, 1.0))
    plot.steps(list(zip(seconds, levels, strict=True)), SERIES[0])
    plot.marks("cross", [(moment, 1.0) for moment in failed], SERIES[4])
    return figure.html()


def before_and_after(tasks: Sequence[RunTask]) -> str:
    """Plot the times of the default and of the choice for the first tasks."""
    known = [(task, task.before_ms, task.after_ms) for task in tasks if task.before_ms and task.after_ms]
    drawn = known[:_BARS]
    names = [printable(f"{task.id} {task.name}") for task, *_ in drawn]
    texts = [f"{shown_ms(before_ms)} to {shown_ms(after_ms)}" for _, before_ms, after_ms in drawn]
    widest_ms = max(max(before_ms, after_ms) for _, before_ms, after_ms in drawn)
    unit, unit_ms = time_unit(widest_ms)
    height_px, tops = rows_px(len(drawn), lanes=2)
    figure = Figure(
        "before-and-after",
        "Time of each task by default and as chosen",
        "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True)),
        height_px,
        behind=max(map(len, texts)),
    )
    more = len(tasks) - len(drawn)
    rest = f"; {counted(more, 'more task is', 'more tasks are')} not drawn" if more else ""
    below = f"time of one call [{unit}]{rest}"
    plot = figure.plot(linear(0, widest_ms / unit_ms), ROWS, below)
    for top, name, text, (_, before_ms, after_ms) in zip(tops, names, texts, drawn, strict=True):
        plot.row(top, name).bar(top, (0, before_ms / unit_ms), SERIES[7], 0.5)
        plot.bar(top + BAR_PX, (0, after_ms / unit_ms), SERIES[0])
        plot.behind(top, max(before_ms, after_ms) / unit_ms, text, lanes=2)
    figure.explain("bar pale", SERIES[7], "default")
    figure.explain("bar", SERIES[0], "chosen")
    return figure.html()


def _weight(task: RunTask) -> int:
    return 1 if task.weight is None else task.weight


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
    by_task = _curves(run)
    drawn = any(curve.relative for curve in by_task)
    timed = [task for task in run.tasks if task.before_ms and task.after_ms]
    return render(
        "tuning.html.j2",
        run=run,
        title=model_name(model) or _heaviest(run),
        verdict=verdict or _verdict(run),
        before_ms=_network(run, [task.before_ms for task in run.tasks]),
        after_ms=_network(run, [task.after_ms for task in run.tasks]),
        by_trial=tuning_curves(by_task) if drawn else "",
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
    """Return in words which choices builds use after a run, as its records tell."""
    changed = sum(task.choice != "default" for task in run.tasks)
    if not all(task.confirmed for task in run.tasks):
        return "the run ended before its last comparison; builds use the fastest that was measured"
    if not changed:
        return "the defaults stay: nothing beat them in the last comparison"
    return f"builds use something else than the default for {changed} of {counted(len(run.tasks), 'task')}"


def _curves(run: Run) -> list[Curve]:
    tasks = [{"id": task.id, "name": task.name, "default_ms": task.default_ms} for task in run.tasks]
    trials = [{"task": task.id, "ms": trial.ms} for task in run.tasks for trial in task.trials]
    return best_curves(tasks, trials)


def _network(run: Run, times: list[float | None]) -> float | None:
    """Return the milliseconds of all tasks, weighted; None if a time or weight is unknown."""
    weighted = [
        task.weight * ms for task, ms in zip(run.tasks, times, strict=True) if task.weight is not None and ms
    ]
    return sum(weighted) if len(weighted) == len(run.tasks) else None
