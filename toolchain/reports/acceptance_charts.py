"""The plot of an acceptance: predicted and measured times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.foreign import printable
from toolchain.quantities import counted
from toolchain.reports.figures import SERIES, Figure, logarithmic


def predicted_and_measured(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Plot a dot for each function: its predicted and its measured milliseconds, on logarithmic axes.

    Parameters
    ----------
    points
        Name of a model -> pairs of both times, which are positive.
    """
    everything = [ms for pairs in points.values() for pair in pairs for ms in pair]
    low, high = min(everything) / 1.5, max(everything) * 1.5
    shown = list(zip(SERIES, points.items(), strict=False))
    figure = Figure(
        "predicted",
        "Predicted and measured time of each function",
        "; ".join(f"{name}: {counted(len(pairs), 'function')}" for _, (name, pairs) in shown),
        290,
        above="measured [ms]",
    )
    axis = logarithmic(low, high)
    plot = figure.plot(axis, axis, "predicted [ms]; a dot for each function, all of its calls")
    plot.line((low, low), (high, high))
    for colour, (name, pairs) in shown:
        plot.dots(pairs, colour)
        figure.explain("dot", colour, printable(name))
    return figure.html()
