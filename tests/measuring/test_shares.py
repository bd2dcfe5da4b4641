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
from toolchain.measuring.place import PlacedBundle
from toolchain.measuring.shares import measured_flops, peak_gflops, profiled

RATES = BoardRates.model_validate(document(cluster()))
TASK = SimpleNamespace(flops=2_000_000, functions=("conv", "conv_1"))


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> PlacedBundle:
    monkeypatch.setattr(shares, "kept_rates", lambda name: RATES if name == "far" else None)
    manifest = SimpleNamespace(tasks=(TASK,), dtype="float32", requires=("avx2", "avx512f"))
    board = SimpleNamespace(name="far", emulated=False)
    return PlacedBundle(
        cast(Any, board), cast(Any, manifest), cast(Any, None), "", threads=1, cluster="x86-64-v4"
    )


def test_each_function_has_its_share(placed: PlacedBundle) -> None:
    operators = [Operator(name=name, calls=2, ms=0.1) for name in ("conv", "conv_1", "pack")]
    conv, again, pack = profiled(placed, operators)
    assert conv["gflops"] == again["gflops"] == pytest.approx(40)
    assert conv["share"] == pytest.approx(40 / 266)
    assert (pack["gflops"], pack["share"]) == (None, None)
    assert profiled(placed, [Operator(name="conv", calls=1, ms=0)])[0]["gflops"] is None


def test_the_peak_is_that_of_the_codes_vectors_and_threads(placed: PlacedBundle) -> None:
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


def test_where_there_is_none(placed: PlacedBundle) -> None:
    for other in (
        replace(placed, board=cast(Any, SimpleNamespace(name="far", emulated=True))),
        replace(placed, board=cast(Any, SimpleNamespace(name="near", emulated=False))),
        replace(placed, device="opencl:0"),
    ):
        assert peak_gflops(other) is None and measured_flops(other) is None
        assert profiled(other, [Operator(name="conv", calls=1, ms=1.0)])[0]["share"] is None
