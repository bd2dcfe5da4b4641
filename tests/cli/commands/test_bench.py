"""`toolchain bench`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.bad_bundles import BUNDLES
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.bundles.read import Bundle


@pytest.mark.slow  # edge-rt may have to be compiled
@pytest.mark.usefixtures("state")
def test_times_are_in_order_and_operators_are_timed(invoke: Toolchain, bundles: dict[str, Bundle]) -> None:
    how = ("--repeat", 5, "--threads", 1, "--profile")
    ran = invoke("bench", bundles["local"].path, "--board", "local", *how, "--json")
    assert ran.code == 0, ran.err
    timed = ran.document
    assert (timed["runs"], timed["threads"], timed["p99_ms"]) == (5, 1, None)
    assert 0 < timed["min_ms"] <= timed["p50_ms"] <= timed["p95_ms"]
    assert all(operator["ms"] > 0 for operator in timed["operators"])
    computed = [operator for operator in timed["operators"] if operator["gflops"]]
    assert computed, "their operations are in the manifest"
    if timed["peak_gflops"] is None:  # this host was not measured before
        assert all(operator["share"] is None for operator in computed)
        assert invoke("board", "probe", "local").code == 0
        timed = invoke("bench", bundles["local"].path, "--board", "local", *how, "--json").document
        computed = [operator for operator in timed["operators"] if operator["gflops"]]
    assert timed["peak_gflops"] > 1
    for operator in computed:
        assert operator["share"] == pytest.approx(operator["gflops"] / timed["peak_gflops"])
        assert operator["share"] < 5, "not even by winograd"
    shown = invoke("bench", bundles["local"].path, "--board", "local", *how).out.splitlines()
    assert shown[0].split()[:2] == ["MEAN", "MS"] and any(line.startswith("OPERATOR") for line in shown)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_bundles_that_are_none(
    invoke: Toolchain,
    files: Path,
    bundles: dict[str, Bundle],
    name: str,
    change: Callable[[bytes], bytes],
    code: int,
    says: list[str],
) -> None:
    bad = files / f"{name}.bundle"
    bad.write_bytes(change(bundles["local"].path.read_bytes()))
    refused(invoke, files, code, [bad.name, *says], "bench", bad.name, "--board", "local")
