"""The plots of a rollout's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.reports.figures import INK, SERIES, figure

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
    from matplotlib.ticker import MaxNLocator

    phases = max(len(each) for each in counts.values())
    with figure("boards", 1.2 + 0.3 * len(counts)) as (made, svg):
        axes = made.subplots()
        for place, (state, of_phases) in enumerate(counts.items()):
            left = 0
            for phase, count in enumerate(of_phases):
                shade = 1.0 - 0.6 * phase / max(1, phases - 1) if phases > 1 else 1.0
                colour = _WORKING if state in working else _OTHER
                axes.barh(place, count, left=left, color=colour, alpha=shade, height=0.66)
                left += count
            axes.text(left, place, f" {left}", va="center", fontsize=9)
        axes.set_yticks(range(len(counts)), list(counts))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlim(0, 1.1 * max(sum(each) for each in counts.values()))
        axes.set_xlabel("boards" if phases == 1 else "boards; the paler, the later the phase")
    return svg[0]


def latency_boxes(phases: Sequence[Sequence[float]], lab_ms: float | None) -> str:
    """Plot the self-tests' median latencies of each phase's boards, beside the lab's.

    Parameters
    ----------
    phases
        Milliseconds of each board, for each phase; phases without any are left out.
    """
    shown = [(number, list(times)) for number, times in enumerate(phases, 1) if times]
    with figure("field", 1.6 + 0.5 * len(shown)) as (made, svg):
        axes = made.subplots()
        axes.boxplot(
            [times for _, times in shown],
            vert=False,
            widths=0.5,
            patch_artist=True,
            boxprops={"facecolor": "none", "edgecolor": SERIES[0]},
            whiskerprops={"color": SERIES[0]},
            capprops={"color": SERIES[0]},
            medianprops={"color": SERIES[0], "linewidth": 2},
            flierprops={"marker": ".", "markeredgecolor": SERIES[1]},
        )
        names = [f"phase {number} ({len(times)})" for number, times in shown]
        axes.set_yticks(range(1, len(shown) + 1), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        if lab_ms is not None:
            axes.axvline(lab_ms, color=INK, linestyle=(0, (4, 3)), linewidth=1, label="the lab's")
            made.legend(loc="outside upper right")
        axes.set_xlim(left=0)
        axes.set_xlabel("median latency of a board's self-test [ms]")
    return svg[0]
