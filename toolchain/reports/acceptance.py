"""The page of an acceptance, made from its document alone: it can tell nothing that the document does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolchain.reports.acceptance_charts import predicted_and_measured
from toolchain.reports.page import render

_KINDS = ("facts", "rates", "verify", "self-test", "bench", "tune", "predict")


def acceptance_page(document: Mapping[str, Any]) -> str:
    """Return the page as HTML; equal documents give equal bytes.

    Parameters
    ----------
    document
        As `toolchain board accept` writes it as JSON.
    """
    steps = document["steps"]
    found = {kind: _found(steps, kind) for kind in _KINDS}
    predictions = [(each, row) for each in found["predict"] for row in each["predictions"]]
    points = {
        f"{each['network']}, {row['model']}": [
            (function["predicted_ms"], function["measured_ms"])
            for function in row["functions"]
            if function["measured_ms"] and function["predicted_ms"]
        ]
        for each, row in predictions
    }
    shown = {name: pairs for name, pairs in points.items() if pairs}
    results = [step["result"] for step in steps]
    return render(
        "acceptance.html.j2",
        document=document,
        counts={result: results.count(result) for result in ("passed", "failed", "missed", "skipped")},
        facts=found["facts"][0] if found["facts"] else None,
        rates=found["rates"][0] if found["rates"] else None,
        verified=found["verify"],
        tested=found["self-test"],
        timed=found["bench"],
        tuned=found["tune"],
        predictions=[(each, row, _ratio(row)) for each, row in predictions],
        chart=predicted_and_measured(shown) if shown else "",
    )


def _found(steps: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return what the steps of a kind found, each with the step's result."""
    there = [step for step in steps if step["found"] is not None and step["found"]["kind"] == kind]
    return [{**step["found"], "result": step["result"]} for step in there]


def _ratio(row: Mapping[str, Any]) -> float | None:
    measured, predicted = row["measured_ms"], row["predicted_ms"]
    return measured / predicted if measured and predicted else None
