"""The report of a demo run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.files import atomic
from toolchain.reports.charts import best_curves, latencies, operators, tuning_curves
from toolchain.reports.page import render


@dataclass(frozen=True)
class DemoReport:
    """The results of a demo run as plain values, as the commands print them with `--json`.

    Attributes
    ----------
    build, tune, verify, bench
        The documents of these commands. `bench` may have `times_ms` and `operators`.
    trials
        {"task": id, "trial": n, "ms": float | None, "failure": str | None}, in the order measured.
    versions
        Name -> version.
    """

    board: str
    machine: str
    emulated: bool
    transport: str
    model: str
    build: Mapping[str, Any]
    tune: Mapping[str, Any]
    trials: Sequence[Mapping[str, Any]]
    verify: Mapping[str, Any]
    bench: Mapping[str, Any]
    versions: Mapping[str, str]


def write_demo_report(path: Path, report: DemoReport) -> None:
    """Write the report as one HTML file atomically; equal reports give equal bytes.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    atomic.write_text(path, demo_page(report))


def demo_page(report: DemoReport) -> str:
    """Return the report as HTML."""
    drawn = best_curves(report.tune["tasks"], report.trials)
    times = report.bench.get("times_ms") or []
    per_operator = report.bench.get("operators") or []
    return render(
        "demo.html.j2",
        report=report,
        tuning=tuning_curves(drawn) if any(curve.relative for curve in drawn) else "",
        latencies=latencies(times) if times else "",
        operators=operators(per_operator) if per_operator else "",
    )
