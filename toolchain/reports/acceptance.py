"""The page of an acceptance with its plot, made from the JSON document alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolchain.foreign import printable
from toolchain.quantities import counted
from toolchain.reports.figures import SERIES, Figure, logarithmic
from toolchain.reports.page import render

# The plot of an acceptance: predicted and measured times.


def predicted_and_measured(points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Plot a dot for each function: its predicted and its measured milliseconds, on logarithmic axes.

    Parameters
    ----------
    points
        Name of a model -> pairs of both times, which are positive.
    """
    everything = [ms for pairs in points.values() for pair in pairs for ms in pair]
    low, high = min(everything) / 1.5, max(everything) * 1.5
    drawn = list(zip(SERIES, points.items(), strict=False))
    figure = Figure(
        "predicted",
        "Predicted and measured time of each function",
        "; ".join(f"{name}: {counted(len(pairs), 'function')}" for _, (name, pairs) in drawn),
        290,
        above="measured [ms]",
    )
    axis = logarithmic(low, high)
    plot = figure.plot(axis, axis, "predicted [ms]; a dot for each function, all of its calls")
    plot.line((low, low), (high, high))
    for colour, (name, pairs) in drawn:
        plot.dots(pairs, colour)
        figure.explain("dot", colour, printable(name))
    return figure.html()


_KINDS = ("facts", "rates", "verify", "self-test", "bench", "tune", "predict")


def acceptance_page(document: Mapping[str, Any]) -> str:
    """Return the page as HTML; equal documents give equal bytes.

    Parameters
    ----------
    document
        As `toolchain board accept` writes it as JSON.
    """
    steps = document["steps"]
    findings = {kind: _found(steps, kind) for kind in _KINDS}
    predictions = [
        (prediction, row) for prediction in findings["predict"] for row in prediction["predictions"]
    ]
    points = {
        f"{prediction['network']}, {row['model']}": [
            (function["predicted_ms"], function["measured_ms"])
            for function in row["functions"]
            if function["measured_ms"] and function["predicted_ms"]
        ]
        for prediction, row in predictions
    }
    drawn = {name: pairs for name, pairs in points.items() if pairs}
    results = [step["result"] for step in steps]
    return render(
        "acceptance.html.j2",
        document=document,
        counts={result: results.count(result) for result in ("passed", "failed", "missed", "skipped")},
        facts=findings["facts"][0] if findings["facts"] else None,
        rates=findings["rates"][0] if findings["rates"] else None,
        verified=findings["verify"],
        tested=findings["self-test"],
        timed=findings["bench"],
        tuned=findings["tune"],
        predictions=[(prediction, row, _ratio(row)) for prediction, row in predictions],
        chart=predicted_and_measured(drawn) if drawn else "",
    )


def _found(steps: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the findings of the steps of a kind, each with the step's result."""
    matching = [step for step in steps if step["found"] is not None and step["found"]["kind"] == kind]
    return [{**step["found"], "result": step["result"]} for step in matching]


def _ratio(row: Mapping[str, Any]) -> float | None:
    measured, predicted = row["measured_ms"], row["predicted_ms"]
    return measured / predicted if measured and predicted else None
