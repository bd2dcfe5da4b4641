"""The plots of reports, each as SVG, and the curve of the best time so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms, time_unit
from toolchain.reports.figures import INK, REST, ROWS, SERIES, Axis, Figure, linear, rows_px

# Computes from trials the curve of the best time so far for each task.


@dataclass(frozen=True)
class Curve:
    """The best time so far of one task, relative to its default.

    Attributes
    ----------
    relative
        Best time so far after each trial, divided by the default's time; at most 1.
    trials
        Time of each trial divided by the default's time; None for a failure.
    failed
        Numbers of the failed trials, from 1.
    """

    name: str
    relative: tuple[float, ...]
    trials: tuple[float | None, ...]
    failed: tuple[int, ...]


def best_curves(tasks: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return a curve for each of `tasks`, in their order; one without trials or default is empty."""
    return [_curve(task, [trial for trial in trials if trial["task"] == task["id"]]) for task in tasks]


def _curve(task: Mapping[str, Any], trials: Sequence[Mapping[str, Any]]) -> Curve:
    best = default = task["default_ms"]
    name = printable(f"{task['id']} {task['name']}")
    if not default:
        return Curve(name, (), (), ())
    relative = []
    for trial in trials:
        if trial["ms"] is not None:
            best = min(best, trial["ms"])
        relative.append(best / default)
    failed = tuple(number for number, trial in enumerate(trials, 1) if trial["ms"] is None)
    ratios = tuple(None if trial["ms"] is None else trial["ms"] / default for trial in trials)
    return Curve(name, tuple(relative), ratios, failed)


_DOTS = 600  # drawn at most; more make the page large and the plot no clearer
_TOP = 2.0  # slower trials, relative to the default, are drawn at this edge
_BARS = 16  # operators shown by themselves


def tuning_curves(all_curves: Sequence[Curve]) -> str:
    """Plot the best time so far of each task over its trials; the first eight have their own colours."""
    drawn = [curve for curve in all_curves if curve.relative]
    named, more = drawn[: len(SERIES)], drawn[len(SERIES) :]
    colours = [*SERIES[: len(named)], *(REST for _ in more)]
    figure = Figure(
        "tuning",
        "Best time so far of each task relative to its default, over trials",
        "; ".join(
            f"{c.name}: {min(c.relative):.2f} after {counted(len(c.relative), 'trial')}" for c in named
        ),
        240,
        above="time / default; line: best so far",
    )
    longest = max(len(curve.relative) for curve in drawn)
    plot = figure.plot(
        linear(0, 1.015 * longest, integers=True),  # a cross at the end is seen
        linear(0, 1.05 * _TOP),
        "trials of the task (dot: its time; triangle: longer than shown; x: failed)",
    )
    for colour, curve in reversed(list(zip(colours, drawn, strict=True))):  # the first task on top
        levels = (1.0, *curve.relative)
        trials = [(number, trial) for number, trial in enumerate(curve.trials, 1) if trial is not None]
        plot.steps(list(enumerate(levels)), colour)
        plot.dots([(number, trial) for number, trial in trials if trial <= _TOP], colour, 0.6)
        plot.marks("triangle", [(number, _TOP) for number, trial in trials if trial > _TOP], colour)
        plot.marks("cross", [(trial, levels[trial]) for trial in curve.failed], colour)
    plot.line((0, 1.0), (longest, 1.0))
    for colour, curve in zip(SERIES, named, strict=False):
        figure.explain("line", colour, _label(curve))
    if more:
        figure.explain("line", REST, counted(len(more), "more task"))
    return figure.html()


def latencies(times_ms: Sequence[float]) -> str:
    """Plot the times of the runs in their order, and their distribution."""
    unit, unit_ms = time_unit(float(np.median(times_ms)))  # not by a straggler
    times = np.asarray(times_ms, dtype=np.float64) / unit_ms
    drawn = np.unique(np.linspace(0, len(times) - 1, min(len(times), _DOTS)).astype(int))
    levels = [(f"p{percent}", float(np.percentile(times, percent))) for percent in (50, 95)]
    texts = [f"{name} {shown_ms(level * unit_ms)}" for name, level in levels]
    upwards = _around(float(times.min()), float(times.max()))
    figure = Figure(
        "latencies",
        "Latency of each run and its distribution",
        f"{counted(len(times), 'run')}: {', '.join(texts)}",
        250,
        above=f"latency [{unit}]",
    )
    runs = "run" if len(drawn) == len(times) else f"run ({len(drawn)} of {len(times)} drawn)"
    margin = max(0.5, 0.02 * len(times))
    order = figure.plot(linear(1 - margin, len(times) + margin, integers=True), upwards, runs, width=0.68)
    order.dots(zip(drawn + 1, times[drawn], strict=True), SERIES[0])
    bins = min(40, max(5, len(times) // 4))
    counts, edges = np.histogram(times, bins=bins, range=(upwards.low, upwards.high))
    across = linear(0, 1.05 * float(counts.max()), most=4, integers=True)
    spread = figure.plot(across, upwards, "runs", left=0.77, width=0.23)
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        if count:
            spread.block((0.0, float(count)), (float(low), float(high)), SERIES[0])
    for (_, level), text, dashed in zip(levels, texts, (False, True), strict=True):
        for plot in (order, spread):
            plot.line((plot.x.low, level), (plot.x.high, level), dashed=dashed)
        figure.explain("dashed" if dashed else "line", INK, text)
    return figure.html()


def operators(measured: Sequence[Mapping[str, Any]]) -> str:
    """Plot the time of each operator per inference, the slowest first."""
    slowest = sorted(measured, key=lambda operator: -operator["ms"])
    bars = [(printable(str(row["name"])), row["ms"], row["calls"]) for row in slowest[:_BARS]]
    if rest := slowest[_BARS:]:
        bars.append((f"{len(rest)} more", sum(e["ms"] for e in rest), sum(e["calls"] for e in rest)))
    unit, unit_ms = time_unit(max(ms for _, ms, _ in bars))
    texts = [f"{shown_ms(ms)}, {calls:g} call{'' if calls == 1 else 's'}" for _, ms, calls in bars]
    height_px, tops = rows_px(len(bars))
    figure = Figure(
        "operators",
        "Time of each operator per inference",
        "; ".join(f"{name}: {text}" for (name, _, _), text in zip(bars, texts, strict=True)),
        height_px,
        behind=max(map(len, texts)),
    )
    widest = max(ms for _, ms, _ in bars) / unit_ms
    plot = figure.plot(linear(0, widest or 1), ROWS, f"time per inference [{unit}] and number of calls")
    for top, (name, ms, _), text in zip(tops, bars, texts, strict=True):
        plot.row(top, name).bar(top, (0, ms / unit_ms), SERIES[0]).behind(top, ms / unit_ms, text)
    return figure.html()


def _around(low: float, high: float) -> Axis:
    """Return an axis with a margin around its values; it does not exaggerate nearly equal ones."""
    margin = 0.05 * (high - low)
    if high - low < 0.02 * high:
        margin = 0.01 * high
    return linear(low - margin, high + margin) if margin else linear(-1, 1)


def _label(curve: Curve) -> str:
    """Return a curve's label; it says so if the line stays at 1, where lines cover each other."""
    return curve.name + ("; stays at 1.00" if min(curve.relative) == 1.0 else "")
