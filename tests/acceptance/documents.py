"""Documents of acceptances, made of parts."""

from __future__ import annotations

from typing import Any

from toolchain.acceptance.document import Acceptance, StepReport
from toolchain.acceptance.found import BenchFound, BoardConditions, Found, VerifyFound


def verified(**changed: Any) -> VerifyFound:
    """Return what a verification found."""
    values = {
        "network": "mobilenet",
        "device": "cpu",
        "real": True,
        "threads": 2,
        "cluster": "cortex-a72",
        "gflop": 1.14,
        "outputs": 1,
        "error": 1e-5,
        "tolerance": 1e-3,
    }
    return VerifyFound.model_validate({**values, **changed})


def benched(**changed: Any) -> BenchFound:
    """Return what a measurement of the latency found."""
    values = {
        "network": "mobilenet",
        "device": "cpu",
        "real": True,
        "threads": 2,
        "cluster": "cortex-a72",
        "mean_ms": 70.0,
        "p50_ms": 70.0,
        "p95_ms": 71.0,
        "min_ms": 69.0,
        "runs": 100,
        "noise": 0.01,
        "drift": 1.0,
        "peak_rss_mib": 40.0,
        "before": BoardConditions(),
        "after": BoardConditions(),
    }
    return BenchFound.model_validate({**values, **changed})


def step(name: str, found: Found | None = None, **changed: Any) -> StepReport:
    """Return the report of a step that passed."""
    return StepReport.model_validate(
        {"name": name, "result": "passed", "seconds": 1.0, "found": found, **changed}
    )


def document(*steps: StepReport, **changed: Any) -> Acceptance:
    """Return a document of an rk3399."""
    values = {
        "toolchain": "0.1.0",
        "edge_rt": "0123456789ab",
        "board_class": "rk3399",
        "emulated": False,
        "shared_cpu": False,
        "date": "2026-11-27",
        "steps": steps,
    }
    return Acceptance.model_validate({**values, **changed})
