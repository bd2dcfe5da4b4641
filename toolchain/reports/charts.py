"""The plots of reports, each as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolchain.foreign import printable
from toolchain.quantities import counted, shown_ms, time_unit
from toolchain.reports.curves import Curve
from toolchain.reports.figures import FAINT, INK, SERIES, figure

_DOTS = 600  # drawn at most; more make the page large and the plot no clearer
_TOP = 2.0  # slower trials, relative to the default, are drawn at this edge
_BARS = 16  # operators shown by themselves
_NAME = 44  # characters of an operator's name
_CALLS_ROOM = 1.2  # how much wider than the longest bar the axis is, for the text behind it


def tuning_curves(curves: Sequence[Curve]) -> str:
    """Plot the best so far of each task over its trials; the first eight in colours of their own."""
    from matplotlib.ticker import MaxNLocator

    shown = [curve for curve in curves if curve.relative]
    named = min(len(shown), len(SERIES))
    rows = named + (len(shown) > named)
    with figure("tuning", 3.2 + 0.2 * rows) as (made, svg):
        axes = made.subplots()
        handles = []
        for place, curve in reversed(list(enumerate(shown))):  # the first task on top
            colour = SERIES[place] if place < named else FAINT
            trials = range(len(curve.relative) + 1)
            levels = (1.0, *curve.relative)
            handles += axes.step(trials, levels, where="post", color=colour, linewidth=1.8)
            slow = [trial is not None and trial > _TOP for trial in curve.trials]
            for marker, clipped in ((".", False), ("^", True)):
                dots = [
                    (number, min(trial, _TOP))
                    for number, (trial, above) in enumerate(zip(curve.trials, slow, strict=True), 1)
                    if trial is not None and above is clipped
                ]
                axes.plot(
                    [number for number, _ in dots],
                    [level for _, level in dots],
                    linestyle="",
                    marker=marker,
                    color=colour,
                    alpha=0.6,
                )
            axes.plot(
                curve.failed,
                [levels[trial] for trial in curve.failed],
                linestyle="",
                marker="x",
                markersize=6,
                color=colour,
            )
        axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel("trials of the task (dot: its time; triangle: longer than shown; x: failed)")
        axes.set_ylabel("time / default; line: best so far")
        axes.set_ylim(0, _TOP * 1.05)
        axes.set_xlim(0, 1.015 * max(len(curve.relative) for curve in shown))  # a cross at the end is seen
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        labels = [_label(curve) for curve in shown[:named]]
        if len(shown) > named:
            labels.append(counted(len(shown) - named, "more task"))
        made.legend(list(reversed(handles))[:rows], labels, loc="outside lower left")
    return svg[0]


def latencies(times_ms: Sequence[float]) -> str:
    """Plot the times of each run in their order, and how they spread."""
    from matplotlib.ticker import MaxNLocator

    unit, unit_ms = time_unit(float(np.median(times_ms)))  # not by a straggler
    times = np.asarray(times_ms, dtype=np.float64) / unit_ms
    drawn = np.unique(np.linspace(0, len(times) - 1, min(len(times), _DOTS)).astype(int))
    with figure("latencies", 3.2) as (made, svg):
        order, spread = made.subplots(1, 2, sharey=True, width_ratios=(3, 1))
        order.plot(drawn + 1, times[drawn], linestyle="", marker="o", markersize=3.5, color=SERIES[0])
        order.set_xlabel("run" if len(drawn) == len(times) else f"run ({len(drawn)} of {len(times)} drawn)")
        order.set_ylabel(f"latency [{unit}]")
        order.xaxis.set_major_locator(MaxNLocator(integer=True))
        spread.hist(
            times, bins=min(40, max(5, len(times) // 4)), orientation="horizontal", color=SERIES[0], alpha=0.6
        )
        spread.set_xlabel("runs")
        spread.xaxis.set_major_locator(MaxNLocator(integer=True))
        for name, percent, style in (("p50", 50, "-"), ("p95", 95, "--")):
            level = float(np.percentile(times, percent))
            for axes in (order, spread):
                line = axes.axhline(level, color=INK, linewidth=0.9, linestyle=style)
            line.set_label(f"{name} {shown_ms(level * unit_ms)}")
        made.legend(*spread.get_legend_handles_labels(), loc="outside upper right", ncols=2)
        low, high = order.get_ylim()
        if high - low < 0.02 * high:  # do not make a mountain of the last digit
            order.set_ylim(low - 0.01 * high, high + 0.01 * high)
    return svg[0]


def operators(measured: Sequence[Mapping[str, Any]]) -> str:
    """Plot the time of each operator per inference, the slowest first."""
    slowest = sorted(measured, key=lambda operator: -operator["ms"])
    bars = [(_short(printable(str(each["name"]))), each["ms"], each["calls"]) for each in slowest[:_BARS]]
    if rest := slowest[_BARS:]:
        bars.append((f"{len(rest)} more", sum(e["ms"] for e in rest), sum(e["calls"] for e in rest)))
    unit, unit_ms = time_unit(max(ms for _, ms, _ in bars))
    with figure("operators", 0.7 + 0.27 * len(bars)) as (made, svg):
        axes = made.subplots()
        places = range(len(bars))
        axes.barh(places, [ms / unit_ms for _, ms, _ in bars], color=SERIES[0], height=0.66)
        axes.set_yticks(places, [name for name, _, _ in bars])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        widest = max(ms for _, ms, _ in bars) / unit_ms
        axes.set_xlim(0, widest * _CALLS_ROOM or 1)
        for place, (_, ms, calls) in zip(places, bars, strict=True):
            axes.text(ms / unit_ms + widest * 0.01, place, _behind(ms, calls), va="center", fontsize=8)
        axes.set_xlabel(f"time per inference [{unit}] and number of calls")
    return svg[0]


def _label(curve: Curve) -> str:
    """Return a curve's name; lines that stay at 1 cover each other, so their names say where they are."""
    return curve.name + ("; stays at 1.00" if min(curve.relative) == 1.0 else "")


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _behind(ms: float, calls: float) -> str:
    return f"{shown_ms(ms)}, {counted(calls, 'call', form='g')}"
