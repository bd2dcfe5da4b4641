"""`edge-rt probe`: what it measures on each architecture, how long it takes, and what it refuses."""

from __future__ import annotations

import fcntl
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.conftest import Edge
from toolchain.architectures.least_time import ROOM, least_ms
from toolchain.host import host_cpu_flags

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

# What every CPU of the architecture has, and what some have besides: by Linux's flags.
EVERY = {"x86_64": {"sse"}, "aarch64": {"neon"}, "armv7": {"neon"}}
SOME = {
    "x86_64": {"avx2": "avx2", "avx512": "avx512f", "avx_vnni": "avx_vnni", "avx512_vnni": "avx512_vnni"},
    "aarch64": {"asimddp": "asimddp", "i8mm": "i8mm"},
    "armv7": {},
}


def test_probe_measures_products_and_reads(edge: Edge, state: Path) -> None:
    begun = time.monotonic()
    code, answer = edge("probe", "--time", "1", "--state", state)
    took = time.monotonic() - begun
    assert code == 0
    assert took < 30
    _, info = edge("info", "--state", state)
    assert (answer["version"], answer["fingerprint"]) == (info["version"], info["fingerprint"])
    assert sum(cluster["cores"] for cluster in answer["clusters"]) == info["physical_cores"]
    flags = set(info["cpu_features"])
    expected = EVERY[edge.arch] | {name for name, flag in SOME[edge.arch].items() if flag in flags}
    for cluster in answer["clusters"]:
        assert cluster["one"]["threads"] == 1
        assert cluster["all"]["threads"] == cluster["cores"]
        for rates in (cluster["one"], cluster["all"]):
            assert {product["name"] for product in rates["products"]} == expected
            assert all(product["gops"] > 0 for product in rates["products"])
            assert {read["name"] for read in rates["reads"]} >= {"l1", "l2", "memory"}
            assert all(read["gb_s"] > 0 for read in rates["reads"])
            assert 0 < rates["cpu_share"] <= 1.1


def test_wider_vectors_are_faster_and_none_beats_the_bound(native: Edge, state: Path) -> None:
    """A peak above what `least_time` believes possible would make honest measurements lies."""
    _, answer = native("probe", "--time", "3", "--state", state)
    (cluster,) = answer["clusters"]
    peaks = _gops(cluster["one"])
    names = [name for name in ("sse", "avx2", "avx512") if name in peaks]
    # Some cores compute in vectors of 512 bits at the rate of 256.
    assert all(peaks[narrow] <= 1.05 * peaks[wide] for narrow, wide in pairwise(names))
    assert ("avx512" in peaks) == ("avx512f" in host_cpu_flags())
    levels = {"sse": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}
    for name in names:
        flops = peaks[name] * 1e9
        bound = least_ms(ROOM * flops, triple="x86_64-unknown-linux-gnu", cpu="", level=levels[name])
        assert bound <= 1000, f"{name}: {peaks[name]} GFLOP/s in a second is called impossible"
    reads = {read["name"]: read["gb_s"] for read in cluster["one"]["reads"]}
    assert reads["l1"] > reads["memory"]


def _gops(measured: dict[str, Any]) -> dict[str, float]:
    return {product["name"]: product["gops"] for product in measured["products"]}


def test_a_busy_board_is_not_measured(native: Edge, state: Path) -> None:
    assert native("probe", "--time", "0", "--state", state)[0] == 0
    with (state / "measure.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, answer = native("probe", "--time", "0", "--state", state)
    assert code != 0
    assert answer["error"]["kind"] == "busy"


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--time", "soon"), "usage", "--time soon"),
        (("--time", "-1"), "usage", "--time -1"),
        (("network.so",), "usage", "network.so"),
        (("--time", "5", "--timeout", "0.2"), "timeout", "--timeout"),
    ],
)
def test_probe_refuses_invalid_options(
    native: Edge, state: Path, options: tuple[str, ...], kind: str, words: str
) -> None:
    code, answer = native("probe", *options, "--state", state)
    assert code != 0
    assert answer["error"]["kind"] == kind
    assert words in answer["error"]["message"]
