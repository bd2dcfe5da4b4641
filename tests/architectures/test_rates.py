"""Measured rates: what counts for how many threads, and files that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolchain.architectures.rates import BoardRates, ClusterRates


def speeds(threads: int, gops: float, memory: float, **gb_s: float) -> dict[str, Any]:
    return {
        "threads": threads,
        "gops": {"avx512": gops, "sse": gops / 4},
        "gb_s": {"l1": 400.0, "l2": 200.0, "memory": memory, **gb_s},
    }


def cluster(core: str = "x86", **changes: Any) -> dict[str, Any]:
    one, both = speeds(1, 266.0, 36.0, l3=100.0), speeds(4, 1000.0, 60.0)
    return {"core": core, "family": "AuthenticAMD 26", "l2_kib": 1024, "one": one, "all": both, **changes}


def board(*clusters: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"measured": "2026-11-26", "edge_rt": "1 0a", "cpu_share": 1.0, "clusters": clusters, **changes}


def test_cores_share_what_they_reach_together() -> None:
    rates = ClusterRates.model_validate(cluster())
    assert rates.read_of("memory", 1) == 36
    assert rates.read_of("memory", 2) == 30
    assert rates.read_of("memory", 4) == 15
    assert rates.read_of("memory", 9) == 15, "more threads than cores are no more cores"
    assert rates.product_of("avx512", 4) == 250
    assert rates.read_of("l3", 4) == 100, "where all of them were not measured, one was"
    assert rates.product_of("neon", 1) is None


@given(st.integers(1, 64), st.floats(0.1, 1e3), st.floats(0.1, 1e4))
def test_a_core_never_gains_by_others(threads: int, one: float, together: float) -> None:
    rates = ClusterRates.model_validate(cluster(one=speeds(1, 1, one), all=speeds(4, 4, together)))
    assert (rates.read_of("memory", threads) or 0) <= one


def test_the_cluster_of_a_cpu() -> None:
    several = BoardRates.model_validate(board(cluster("cortex-a72"), cluster("cortex-a53")))
    found = several.of_core("cortex-a53")
    assert found is not None and found.core == "cortex-a53"
    assert several.of_core("cortex-a55") is None
    alone = BoardRates.model_validate(board(cluster()))
    assert alone.of_core("x86-64-v4") == alone.clusters[0]


@pytest.mark.parametrize(
    "wrong",
    [
        board(),
        board(cluster(one=speeds(1, 0.0, 1.0))),
        board(cluster(one=speeds(1, float("nan"), 1.0))),
        board(cluster(one=speeds(1, float("inf"), 1.0))),
        board(cluster(one={**speeds(1, 1.0, 1.0), "gb_s": {"l1": 1.0, "l2": 1.0}})),
        board(cluster(one={**speeds(1, 1.0, 1.0), "gops": {}})),
        board(cluster(one={**speeds(1, 1.0, 1.0), "gops": {"../avx": 1.0}})),
        board(cluster(l2_kib=0)),
        board(cluster(), measured="today"),
        board(cluster(), cpu_share=-0.1),
        board(cluster(), surprise=1),
    ],
)
def test_wrong_ones_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BoardRates.model_validate(wrong)
