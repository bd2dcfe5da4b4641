"""The report of a demo run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.files import atomic
from toolchain.foreign import printable_lines
from toolchain.reports.charts import latencies, operators, tuning_curves
from toolchain.reports.curves import curves
from toolchain.reports.figures import milliseconds

_TEMPLATE = Path(__file__).parent / "demo.html.j2"


@dataclass(frozen=True)
class DemoReport:
    """What a demo run found: plain values, as its commands print them with `--json`.

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
    """Write the report as one HTML file, whole or not at all; equal reports give equal bytes.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    atomic.write_text(path, demo_page(report))


def demo_page(report: DemoReport) -> str:
    """Return the report as HTML."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["ms"] = milliseconds
    found = curves(report.tune["tasks"], report.trials)
    times = report.bench.get("times_ms") or []
    per_operator = report.bench.get("operators") or []
    page = environment.from_string(_TEMPLATE.read_text()).render(
        report=report,
        tuning=tuning_curves(found) if any(curve.relative for curve in found) else "",
        latencies=latencies(times) if times else "",
        operators=operators(per_operator) if per_operator else "",
        speed_up=_speed_up,
    )
    return printable_lines(page)  # names are escaped for HTML; a browser obeys characters that turn text, too


def _speed_up(before: float | None, after: float | None) -> str:
    return f"{before / after:.2f}×" if before and after else "–"  # noqa: RUF001 (as people write it)
