"""The plots of a tuning run, each as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms, time_unit
from toolchain.reports.figures import BAR_PX, ROWS, SERIES, Figure, linear, rows_px
from toolchain.reports.runs import RunTask

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
    shown = known[:_BARS]
    names = [printable(f"{task.id} {task.name}") for task, *_ in shown]
    texts = [f"{shown_ms(before_ms)} to {shown_ms(after_ms)}" for _, before_ms, after_ms in shown]
    widest_ms = max(max(before_ms, after_ms) for _, before_ms, after_ms in shown)
    unit, unit_ms = time_unit(widest_ms)
    height_px, tops = rows_px(len(shown), lanes=2)
    figure = Figure(
        "before-and-after",
        "Time of each task by default and as chosen",
        "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True)),
        height_px,
        behind=max(map(len, texts)),
    )
    more = len(tasks) - len(shown)
    rest = f"; {counted(more, 'more task is', 'more tasks are')} not drawn" if more else ""
    below = f"time of one call [{unit}]{rest}"
    plot = figure.plot(linear(0, widest_ms / unit_ms), ROWS, below)
    for top, name, text, (_, before_ms, after_ms) in zip(tops, names, texts, shown, strict=True):
        plot.row(top, name).bar(top, (0, before_ms / unit_ms), SERIES[7], 0.5)
        plot.bar(top + BAR_PX, (0, after_ms / unit_ms), SERIES[0])
        plot.behind(top, max(before_ms, after_ms) / unit_ms, text, lanes=2)
    figure.explain("bar pale", SERIES[7], "default")
    figure.explain("bar", SERIES[0], "chosen")
    return figure.html()


def _weight(task: RunTask) -> int:
    return 1 if task.weight is None else task.weight
