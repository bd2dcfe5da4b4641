"""A run's findings, as the commands print them."""

from __future__ import annotations

from typing import Any

import numpy as np

from toolchain.reports.demo import DemoReport

NAMES = (
    "fused_conv2d_add_relu1",
    "fused_depthwise_conv2d_add_relu3",
    "fused_conv2d12_add7_relu7",
    "fused_matmul_add8",
)


def report(count: int = 4, rounds: int = 16, runs: int = 120, **changes: Any) -> DemoReport:
    """Return a report with seeded numbers; a fifth of the trials fail."""
    random = np.random.default_rng(0)
    ids = [f"{place:08x}" for place in range(0x1A2B3C4D, 0x1A2B3C4D + count)]
    defaults = {id_: 10.0 + 40.0 * place for place, id_ in enumerate(ids)}
    measured = [
        {
            "task": id_,
            "trial": trial,
            "ms": None if random.random() < 0.2 else float(defaults[id_] * random.uniform(0.3, 2.0)),
            "failure": None,
        }
        for trial in range(rounds)
        for id_ in ids
    ]
    for trial in measured:
        trial["failure"] = "timeout" if trial["ms"] is None else None
    best = {
        id_: min([t["ms"] for t in measured if t["task"] == id_ and t["ms"]] + [defaults[id_]]) for id_ in ids
    }
    times = (83.0 + random.gamma(2.0, 0.8, runs)).tolist()
    values: dict[str, Any] = {
        "board": "rk3399-emulated",
        "machine": "aarch64",
        "emulated": True,
        "transport": "local",
        "model": "zoo:mobilenet",
        "build": {
            "bundle": "/home/me/out/mobilenet-rk3399-emulated.bundle",
            "bundle_sha256": "ab" * 32,
            "library": "/home/me/out/mobilenet-rk3399-emulated.so",
            "library_sha256": "cd" * 32,
            "target": "aarch64-unknown-linux-gnu",
            "tasks": {"total": 28, "tuned": count, "improved": count - 1},
        },
        "tune": {
            "trials": len(measured),
            "failed": sum(t["ms"] is None for t in measured),
            "seconds": 93.4,
            "verdict": "these tasks: 100.0 ms -> 50.00 ms per inference",
            "estimated_ms_before": sum(defaults.values()),
            "estimated_ms_after": sum(best.values()),
            "tasks": [
                {
                    "id": id_,
                    "name": NAMES[place % len(NAMES)],
                    "trials": rounds,
                    "best_ms": best[id_],
                    "default_ms": defaults[id_],
                    "choice": "metaschedule" if best[id_] < defaults[id_] else "default",
                }
                for place, id_ in enumerate(ids)
            ],
        },
        "trials": measured,
        "verify": {
            "passed": True,
            "tolerance": 1e-3,
            "outputs": [
                {
                    "name": "prob",
                    "shape": [1, 1000],
                    "max_abs_error": 2.1e-7,
                    "max_rel_error": 3.4e-6,
                    "worst_index": [0, 417],
                }
            ],
        },
        "bench": {
            "mean_ms": float(np.mean(times)),
            "std_ms": float(np.std(times)),
            "p50_ms": float(np.percentile(times, 50)),
            "p95_ms": float(np.percentile(times, 95)),
            "p99_ms": float(np.percentile(times, 99)),
            "min_ms": min(times),
            "runs": runs,
            "threads": 2,
            "peak_rss_mib": 41.3,
            "warnings": ["an emulated board: its times say nothing about silicon"],
            "times_ms": times,
            "operators": [
                {
                    "name": f"fused_conv2d{place}_add{place}_relu{place}",
                    "calls": 1 + place % 3,
                    "ms": 30 / place,
                }
                for place in range(1, 25)
            ],
        },
        "versions": {"toolchain": "0.1.0", "apache-tvm": "0.27.0.post1"},
    }
    return DemoReport(**{**values, **changes})
