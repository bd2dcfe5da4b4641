"""The plot of an acceptance: predicted and measured times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.reports.figures import INK, SERIES, figure


def predicted_and_measured(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Plot a dot for each function: its predicted and its measured milliseconds, on logarithmic axes.

    Parameters
    ----------
    points
        Name of a model -> pairs of both times, which are positive.
    """
    everything = [ms for pairs in points.values() for pair in pairs for ms in pair]
    low, high = min(everything) / 1.5, max(everything) * 1.5
    rows = min(len(points), len(SERIES))
    with figure("predicted", 3.8 + 0.2 * rows) as (made, svg):
        axes = made.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([low, high], [low, high], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        handles = []
        for colour, pairs in zip(SERIES, points.values(), strict=False):
            predicted, measured = zip(*pairs, strict=True)
            handles += axes.plot(predicted, measured, linestyle="", marker="o", markersize=4, color=colour)
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_xlabel("predicted [ms]; a dot for each function, all of its calls")
        axes.set_ylabel("measured [ms]")
        made.legend(handles, list(points)[:rows], loc="outside lower left")
    return svg[0]
