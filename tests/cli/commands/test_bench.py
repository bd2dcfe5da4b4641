"""`toolchain bench`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.bad_bundles import BUNDLES
from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.waiting import until
from toolchain.bundles.read import Bundle
from toolchain.cli.commands.execute import show_latency
from toolchain.measuring.bench import BenchResult
from toolchain.measuring.verifications import remember, verifications


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
    assert shown[0].split()[:2] == ["MEAN", "STD"] and any(line.startswith("OPERATOR") for line in shown)
    assert timed["peaks"] == {"float32": timed["peak_gflops"]}
    assert (
        f"peak: {timed['peak_gflops']:.0f} GFLOP/s in float32, measured; winograd needs fewer operations"
        in shown
    )


@pytest.mark.slow
def test_a_killed_bench_leaves_no_edge_rt_on_this_host(state: Path, bundles: dict[str, Bundle]) -> None:
    command = ("bench", str(bundles["local"].path), "--board", "local", "--time", "3000", "--timeout", "6000")
    with subprocess.Popen(
        [sys.executable, "-m", "toolchain", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as host:

        def measuring() -> list[psutil.Process]:
            root = str(state / "boards" / "local")
            there = psutil.process_iter(["name", "cwd"])
            return [p for p in there if p.info["cwd"] == root and "edge-rt" in p.info["name"]]

        lock = state / "boards" / "local" / "state" / "measure.lock"
        until(lambda: lock.exists() and b"bench" in lock.read_bytes())
        until(measuring, what="that edge-rt measures")
        host.kill()
        host.wait()
        until(lambda: not measuring(), what="that edge-rt ends")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_release_is_compared_with_what_runs_as_usual(
    invoke: Toolchain, files: Path, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    bundle = bundles["local"]
    remember(bundle.sha256, "x86_64", 1e-6, "cpu")
    for options in (("--repeat", 9), ("--threads", 1), ("--spin-us", 0)):
        assert invoke("bench", bundle.path, "--board", "local", "--repeat", 12, *options).code == 0
        assert verifications(bundle.sha256)["x86_64"].latency_ms is None, options
    ran = invoke("bench", bundle.path, "--board", "local", "--repeat", 12, "--json")
    assert verifications(bundle.sha256)["x86_64"].latency_ms == ran.document["p50_ms"]


def operator(name: str, share: float | None) -> dict[str, Any]:
    return {"name": name, "calls": 1, "ms": 0.5, "gflops": 80.0, "products": "", "share": share}


@pytest.mark.parametrize(
    ("peaks", "said"),
    [
        ({"float32": 170.2}, ["peak: 170 GFLOP/s in float32, measured; winograd needs fewer operations"]),
        (
            {"float32": 170.2, "avx512_vnni": 661.0},
            [
                "peak: 170 GFLOP/s in float32, 661 GOP/s by avx512_vnni, measured; winograd needs fewer "
                "operations"
            ],
        ),
        ({}, []),
    ],
)
def test_each_peak_that_was_used_is_named(
    peaks: dict[str, float], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    times = dict.fromkeys(("mean_ms", "std_ms", "p50_ms", "p95_ms", "p99_ms", "min_ms"), 1.0)
    names = dict.fromkeys(("governor", "temperature_c", "board", "machine", "cluster", "ran_on"), "")
    result = BenchResult(
        **times,
        **names,
        runs=9,
        number=1,
        threads=1,
        spin_us=0,
        peak_rss_mib=2.0,
        noise=0.0,
        confident=True,
        device="cpu",
        shared_cpu=False,
        emulated=False,
        warnings=[],
        operators=[operator("conv", 0.12), operator("pairs", None)],
        peaks=peaks,
    )
    show_latency(result)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("peak: ")] == said
    assert [line.split()[-1] for line in lines if line.startswith(("conv", "pairs"))] == ["12%", "-"]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("name", "change", "code", "says"), BUNDLES, ids=[row[0] for row in BUNDLES])
def test_refuses_files_that_are_no_bundles(
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
