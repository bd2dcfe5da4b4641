"""The plots of a tuning run, each as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms, time_unit
from toolchain.reports.figures import FAINT, INK, SERIES, figure
from toolchain.reports.runs import RunTask

_BARS = 20  # tasks shown by themselves
_NAME = 44  # characters of a task's name
_ROOM = 1.3  # how much wider than the longest bar the axis is, for the text behind it


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
    with figure("best-by-time", 2.9) as (made, svg):
        axes = made.subplots()
        axes.step(seconds, levels, where="post", color=SERIES[0], linewidth=1.8)
        axes.plot(failed, [1.0] * len(failed), linestyle="", marker="x", markersize=5, color=SERIES[4])
        axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel(f"seconds since the first default was measured (x: a trial failed){stays}")
        axes.set_ylabel("all tasks / default" if weighted else "all tasks, once each / default")
        low = min(levels)
        axes.set_ylim(min(0.95, low - 0.05 * (1.05 - low)), 1.02)
        axes.set_xlim(0, 1.015 * max(seconds[-1], *failed, 1e-3))
    return svg[0]


def before_and_after(tasks: Sequence[RunTask]) -> str:
    """Plot the times of the default and of the choice for the first tasks."""
    shown = [(task, task.before_ms, task.after_ms) for task in tasks if task.before_ms and task.after_ms][
        :_BARS
    ]
    widest_ms = max(max(before_ms, after_ms) for _task, before_ms, after_ms in shown)
    unit, unit_ms = time_unit(widest_ms)
    widest = widest_ms / unit_ms
    with figure("before-and-after", 1.1 + 0.42 * len(shown)) as (made, svg):
        axes = made.subplots()
        for place, (_task, before_ms, after_ms) in enumerate(shown):
            for shift, ms, colour, label in (
                (-0.19, before_ms, FAINT, "default"),
                (0.19, after_ms, SERIES[0], "chosen"),
            ):
                label = label if not place else f"_{label}"
                axes.barh(place + shift, ms / unit_ms, color=colour, height=0.36, label=label)
        for place, (_task, before_ms, after_ms) in enumerate(shown):
            behind = f"{shown_ms(before_ms)} to {shown_ms(after_ms)}"
            axes.text(
                max(before_ms, after_ms) / unit_ms + widest * 0.01, place, behind, va="center", fontsize=8
            )
        axes.set_yticks(range(len(shown)), [_name(task) for task, *_ in shown])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        axes.set_xlim(0, widest * _ROOM)
        more = len(tasks) - len(shown)
        axes.set_xlabel(
            f"time of one call [{unit}]"
            + (f"; {counted(more, 'more task is', 'more tasks are')} not drawn" if more else "")
        )
        made.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return svg[0]


def _weight(task: RunTask) -> int:
    return 1 if task.weight is None else task.weight


def _name(task: RunTask) -> str:
    name = printable(f"{task.id} {task.name}")
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
