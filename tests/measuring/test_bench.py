"""How long a bundle takes: the budget, the conditions, and what is not known."""

from __future__ import annotations

import json
import time

import pytest

from tests.measuring.changed import nothing_left
from toolchain.boards.board import Board
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import Execution, OnBoard, Sampling

pytestmark = pytest.mark.slow


def test_bench_reports_statistics_and_conditions(for_local: Bundle, local: Board) -> None:
    found = bench_bundle(
        for_local, OnBoard(local), Sampling(repeat=120, min_repeat_ms=1, profile=True), Execution(threads=1)
    )
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (document["runs"], document["threads"]) == (120, 1)
    ordered = [document[key] for key in ("min_ms", "p50_ms", "p95_ms", "p99_ms")]
    assert ordered[0] > 0 and ordered == sorted(ordered)
    assert ordered[0] <= document["mean_ms"]
    assert document["number"] * document["mean_ms"] >= 0.5
    assert document["peak_rss_mib"] > 1
    assert document["noise"] == pytest.approx(document["std_ms"] / document["mean_ms"])
    assert {"governor", "temperature_c", "cluster", "shared_cpu", "emulated", "machine"} <= set(document)
    assert document["device"] == "cpu"
    conv = next(operator for operator in document["operators"] if "conv" in operator["name"])
    assert conv["calls"] == 1
    assert nothing_left(local)


def test_bench_keeps_time_budget_and_reports_low_confidence(for_rk3399: Bundle, rk3399: Board) -> None:
    begun = time.monotonic()
    found = bench_bundle(for_rk3399, OnBoard(rk3399), Sampling(repeat=9, time_s=3.0))
    assert time.monotonic() - begun < 40
    assert found.p99_ms is None
    assert found.runs <= 9
    assert not found.confident
    assert any("silicon" in warning for warning in found.warnings)
    assert "operators" not in found.to_json()


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        (Execution(threads=0), "--threads 0"),
        (Execution(cluster="cortex-a53"), "--cluster cortex-a53"),
    ],
)
def test_refuses_execution_that_board_lacks(
    for_local: Bundle, local: Board, execution: Execution, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        bench_bundle(for_local, OnBoard(local), execution=execution)


def test_refuses_timeout_of_zero(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match="--timeout 0"):
        bench_bundle(for_local, OnBoard(local, timeout=0.0))
