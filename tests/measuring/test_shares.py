"""Shares of the peak: by the products and threads of a bundle, and None without measured rates."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.architectures.test_rates import board as document
from tests.architectures.test_rates import cluster
from toolchain.architectures.rates import BoardRates
from toolchain.measuring import shares
from toolchain.measuring.answers import Operator
from toolchain.measuring.execution import AS_BUILT, OnBoard
from toolchain.measuring.place import PlacedBundle
from toolchain.measuring.shares import measured_flops, peak_gflops, peaks_of, profiled


def with_bytes(of: dict[str, Any], gops: float) -> dict[str, Any]:
    return {**of, "gops": {**of["gops"], "avx512_vnni": gops}}


FLOATS = cluster()
RATES = BoardRates.model_validate(
    document({**FLOATS, "one": with_bytes(FLOATS["one"], 1060), "all": with_bytes(FLOATS["all"], 4000)})
)
TASK = SimpleNamespace(flops=2_000_000, functions=("conv", "conv_1"), products="float32")
BYTES = SimpleNamespace(flops=8_000_000, functions=("quantised",), products="avx512_vnni")
PAIRS = SimpleNamespace(flops=4_000_000, functions=("pairs",), products="pmaddwd")
OLDER = SimpleNamespace(flops=2_000_000, functions=("older",), products=None)
TASKS = (TASK, BYTES, PAIRS, OLDER)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> PlacedBundle:
    monkeypatch.setattr(shares, "kept_rates", lambda name: RATES if name == "far" else None)
    manifest = SimpleNamespace(tasks=TASKS, dtype="float32", requires=("avx2", "avx512f"))
    board = SimpleNamespace(name="far", emulated=False)
    return PlacedBundle(
        OnBoard(cast(Any, board)),
        cast(Any, manifest),
        cast(Any, None),
        "",
        AS_BUILT,
        threads=1,
        cluster="x86-64-v4",
    )


def test_share_of_peak_per_function(placed: PlacedBundle) -> None:
    operators = [Operator(name=name, calls=2, ms=0.1) for name in ("conv", "conv_1", "pack")]
    conv, again, pack = profiled(placed, operators)
    assert conv["gflops"] == again["gflops"] == pytest.approx(40)
    assert conv["share"] == pytest.approx(40 / 266)
    assert (pack["gflops"], pack["share"]) == (None, None)
    assert profiled(placed, [Operator(name="conv", calls=1, ms=0)])[0]["gflops"] is None


def test_int8_share_uses_peak_of_its_instruction(placed: PlacedBundle) -> None:
    names = ("quantised", "pairs", "older", "conv", "pack")
    found = profiled(placed, [Operator(name=name, calls=1, ms=0.1) for name in names])
    quantised, pairs, older, conv, pack = found
    assert quantised["gflops"] == pytest.approx(80) and quantised["share"] == pytest.approx(80 / 1060)
    assert (pairs["gflops"], pairs["share"]) == (pytest.approx(40), None), "no probe measures pairs"
    assert (older["gflops"], older["share"]) == (pytest.approx(20), None), "what they are was not stored"
    assert [each["products"] for each in found] == ["avx512_vnni", "pmaddwd", None, "float32", None]
    assert list(peaks_of(placed, found).items()) == [("float32", 266), ("avx512_vnni", 1060)]
    assert peaks_of(placed, [conv]) == {"float32": 266}
    assert peaks_of(placed, [pairs, older, pack]) == {}
    (four,) = profiled(replace(placed, threads=4), [Operator(name="quantised", calls=1, ms=0.1)])
    assert four["share"] == pytest.approx(80 / 4000)


def test_peak_depends_on_vectors_and_threads(placed: PlacedBundle) -> None:
    def with_(**changes: Any) -> PlacedBundle:
        manifest = SimpleNamespace(**{**vars(placed.manifest), **changes})
        return replace(placed, manifest=cast(Any, manifest))

    assert peak_gflops(placed) == 266
    assert peak_gflops(replace(placed, threads=4)) == 1000
    assert peak_gflops(replace(placed, threads=2)) == 532, "two of four reach twice what one does"
    assert peak_gflops(with_(requires=())) == 66.5
    assert peak_gflops(with_(requires=("avx2",))) is None, "not measured there"
    assert peak_gflops(with_(dtype="int8")) is None
    assert measured_flops(placed) == 266e9


def test_share_is_none_without_measured_rates(placed: PlacedBundle) -> None:
    for other in (
        replace(placed, on_board=OnBoard(cast(Any, SimpleNamespace(name="far", emulated=True)))),
        replace(placed, on_board=OnBoard(cast(Any, SimpleNamespace(name="near", emulated=False)))),
        replace(placed, device="opencl:0"),
    ):
        assert peak_gflops(other) is None and measured_flops(other) is None
        found = profiled(other, [Operator(name=name, calls=1, ms=1.0) for name in ("conv", "quantised")])
        assert [each["share"] for each in found] == [None, None] and peaks_of(other, found) == {}
