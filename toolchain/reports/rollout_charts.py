"""The plots of a rollout's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from toolchain.quantities import counted, shown_ms
from toolchain.reports.figures import INK, ROWS, SERIES, Figure, linear, rows_px

_WORKING, _OTHER = SERIES[0], SERIES[1]


def boards_by_state(counts: Mapping[str, Sequence[int]], working: frozenset[str]) -> str:
    """Plot how many boards of each phase ended in each state.

    Parameters
    ----------
    counts
        State -> number of boards in each phase.
    working
        States of boards that run the release; they get one colour, all others another.
    """
    phases = max(len(each) for each in counts.values())
    totals = {state: sum(of_phases) for state, of_phases in counts.items()}
    most = max(totals.values())
    height_px, tops = rows_px(len(counts))
    figure = Figure(
        "boards",
        "Number of boards in each state",
        "; ".join(f"{state}: {counted(total, 'board')}" for state, total in totals.items()),
        height_px,
        behind=len(str(most)),
    )
    below = "boards" if phases == 1 else "boards; the paler, the later the phase"
    plot = figure.plot(linear(0, most or 1, whole=True), ROWS, below)
    for top, (state, of_phases) in zip(tops, counts.items(), strict=True):
        plot.row(top, state)
        left = 0
        for phase, count in enumerate(of_phases):
            shade = 1.0 - 0.6 * phase / max(1, phases - 1)
            plot.bar(top, (left, left + count), _WORKING if state in working else _OTHER, shade)
            left += count
        plot.behind(top, left, str(left))
    return figure.html()


def latency_boxes(phases: Sequence[Sequence[float]], lab_ms: float | None) -> str:
    """Plot the self-tests' median latencies of each phase's boards, beside the lab's.

    Parameters
    ----------
    phases
        Milliseconds of each board, for each phase; phases without any are left out.
    """
    shown = [(number, np.asarray(times)) for number, times in enumerate(phases, 1) if len(times)]
    names = [f"phase {number} ({len(times)})" for number, times in shown]
    height_px, tops = rows_px(len(shown))
    figure = Figure(
        "field",
        "Latency of the boards of each phase beside the lab's",
        "; ".join(
            f"{name}: median {shown_ms(float(np.median(times)))}"
            for name, (_, times) in zip(names, shown, strict=True)
        ),
        height_px,
    )
    longest = max(lab_ms or 0.0, *(float(times.max()) for _, times in shown))
    across = linear(0, 1.05 * longest or 1)
    plot = figure.plot(across, ROWS, "median latency of a board's self-test [ms]")
    for top, name, (_, times) in zip(tops, names, shown, strict=True):
        first, middle, third = (float(each) for each in np.percentile(times, (25, 50, 75)))
        reach = 1.5 * (third - first)
        inside = times[(times >= first - reach) & (times <= third + reach)]
        whiskers = float(inside.min()), float(inside.max())
        beyond = [float(each) for each in times if not whiskers[0] <= each <= whiskers[1]]
        plot.row(top, name).box(top, (whiskers[0], first, middle, third, whiskers[1]), beyond)
    if lab_ms is not None:
        plot.line((lab_ms, 0), (lab_ms, 1))
        figure.explain("dashed", INK, f"the lab's {shown_ms(lab_ms)}")
    return figure.html()
