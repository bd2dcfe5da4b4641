"""A pack is built for a small network, and its command measures it on the emulated driver."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from benchmarks.cuda import main
from benchmarks.nvidia.launches import counting_driver, launches
from benchmarks.nvidia.pack import ROOT, TRAVEL, write_pack
from benchmarks.nvidia.travel.members import Pack
from benchmarks.nvidia.travel.stop import Stop
from tests.benchmarks.nvidia.packing import FAKE_PEER, MODES, environment_of, run, wanted
from tests.benchmarks.nvidia.standing_in import MEASURED, nvidia_smi
from tests.waiting import until
from toolchain.errors import UsageError
from toolchain.runtime import ensure_runtime
from toolchain.testbeds.cuda import ensure_emulated_cuda

pytestmark = pytest.mark.slow  # a network is compiled, and the emulated driver
OURS = "tiny / batch 1 / edge-rt / float32 / float32"


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack whose peer is a fake."""
    folder = tmp_path_factory.mktemp("cuda")
    travel = folder / "travel"
    shutil.copytree(ROOT / TRAVEL, travel, ignore=shutil.ignore_patterns("__pycache__"))
    (travel / "torch_peer.py").write_text(FAKE_PEER)
    write_pack(folder / "pack", wanted(travel), lambda _: None)
    return folder / "pack"


def copied(pack: Path, folder: Path) -> Path:
    return shutil.copytree(pack, folder / "pack")


def test_its_command_measures_with_the_standard_library_alone(
    pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results.json"
    code, words, results = run(pack, out)
    assert (code, set(results["rows"])) == (0, {OURS, f"{OURS} / graph off"}), words
    assert "torch is not measured: it ended with 1: ModuleNotFoundError" in words
    assert "complete" in words and "2 rows are left, 2 of them for the goals" in words
    for row in results["rows"].values():
        assert row["status"] == "measured" and row["error"] < 1e-5 and len(row["times_ms"]) == 3, row
    (first,) = results["runs"]
    assert "No module named 'torch'" in first["peers"]["torch"]["reason"]
    assert {each["calls"] for each in results["rows"][OURS]["operators"]} == {1}
    assert results["launches"]["status"] == "measured" and "launches and barriers: graph" in words

    code, _, again = run(pack, out)  # all rows are there
    assert code == 0 and again["rows"] == results["rows"] and len(again["runs"]) == 2
    assert again["launches"] == results["launches"]

    main(["--report", str(out)])
    text = capsys.readouterr().out
    assert "Emulated: nothing is said of a GPU" in text and "| **ours**, float32, graph off |" in text
    assert "| 3→8 3x3, 4x4 | 1 |" in text
    assert "1 blocks of 256 threads; barriers in a plain launch." in text


def test_a_peer_that_fails_costs_itself(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = 'fake'")
    options = ("--row-seconds", "6")
    begun = time.monotonic()
    fakes = {"PYTHONPATH": str(tmp_path), "HANGS": str(tmp_path / "hangs")}
    code, words, results = run(pack, tmp_path / "results.json", *options, **fakes)
    assert code == 0 and time.monotonic() - begun < 100
    rows = {row["name"]: row for row in results["rows"].values() if row["who"] == "torch"}
    assert [rows[mode]["status"] for mode in MODES] == ["crashed", "late", "failed", "wrong", "measured"], (
        words
    )
    assert "signal 11" in rows["crashes"]["reason"] and "no such mode" in rows["gives up"]["reason"]
    assert rows["compile default"]["error"] == 0 and rows["compile default"]["peak_mib"] == 7
    assert results["rows"][OURS]["status"] == "measured"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_interrupts_it_ends_its_children_and_keeps_the_rows(
    pack: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "torch.py").write_text("__version__ = 'fake'")
    out, hangs = tmp_path / "results.json", tmp_path / "hangs"
    process = subprocess.Popen(
        [sys.executable, "run.py", "--out", str(out), "--samples", "1", "--sample-ms", "0"],
        cwd=pack, stderr=subprocess.PIPE, text=True,
        env=environment_of(PYTHONPATH=str(tmp_path), HANGS=str(hangs)),
    )  # fmt: skip
    try:
        until(lambda: hangs.exists() and hangs.read_text())
        process.send_signal(number)
        words = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and f"what was measured is in {out}" in words
    assert not psutil.pid_exists(int(hangs.read_text()))
    rows = json.loads(out.read_text())["rows"]
    assert rows[OURS]["status"] == "measured" and len(rows) == 4


def test_a_driver_that_fails_is_a_row_with_its_reason(pack: Path, tmp_path: Path) -> None:
    fault = {"EDGE_CUDA_FAULT": "cuMemAlloc_v2:2"}
    code, _, results = run(pack, tmp_path / "results.json", **fault)
    assert "cuMemAlloc_v2 returns CUDA_ERROR_OUT_OF_MEMORY" in results["launches"]["reason"]
    assert code == 0 and results["rows"][OURS]["status"] == "failed"
    assert "CUDA_ERROR_OUT_OF_MEMORY" in results["rows"][OURS]["reason"]
    code, _, results = run(pack, tmp_path / "results.json")
    assert code == 0 and results["rows"][OURS]["status"] == "failed"
    code, _, results = run(pack, tmp_path / "results.json", "--retry")
    assert code == 0 and {row["status"] for row in results["rows"].values()} == {"measured"}
    assert results["launches"]["status"] == "measured"


def test_nvidia_smi_watches_the_gpu_of_edge_rt(pack: Path, tmp_path: Path) -> None:
    path, log = nvidia_smi(tmp_path)
    code, words, results = run(pack, tmp_path / "results.json", "--sample-ms", "100", PATH=path)
    assert code == 0 and results["rows"][OURS]["status"] == "measured", words
    (first,) = results["runs"]
    assert first["gpu"] == MEASURED and first["nvidia_smi"]["memory.total"] == "81559"
    watched = [line for line in log.read_text().splitlines() if "loop-ms" in line]
    assert len(watched) == 2 and all(f"--id={MEASURED}" in line for line in watched)


def test_without_a_gpu_nothing_is_measured(pack: Path, tmp_path: Path) -> None:
    code, words, results = run(pack, tmp_path / "results.json", EDGE_CUDA_FAULT="cuInit:100")
    assert (code, results) == (2, None) and "edge-rt finds no GPU" in words
    assert "CUDA_ERROR_NO_DEVICE" in words


def test_the_time_is_over_before_a_row_begins(pack: Path, tmp_path: Path) -> None:
    code, words, results = run(pack, tmp_path / "results.json", "--minutes", "0.01")
    assert (
        code == 0
        and results["rows"] == {}
        and "launches" not in results
        and "2 rows are left: run it again" in words
    )


@pytest.mark.parametrize("member", ["edge-rt", "tiny/1/float32.so.xz", "benchmarks/nvidia/travel/ours.py"])
def test_a_member_that_was_changed_or_lost_is_refused(pack: Path, tmp_path: Path, member: str) -> None:
    there = copied(pack, tmp_path)
    data = bytearray((there / member).read_bytes())
    data[len(data) // 2] ^= 1
    if member.endswith(".py"):
        data = bytearray((there / member).read_bytes() + b"\n# more\n")
    (there / member).write_bytes(data)
    code, words, results = run(there, tmp_path / "results.json")
    assert (code, results) == (2, None) and f"{member} is not what was packed" in words
    (there / member).unlink()
    if not member.endswith(".py"):
        assert f"{member} is missing" in run(there, tmp_path / "results.json")[1]


def test_a_library_is_the_one_that_was_built(pack: Path, tmp_path: Path) -> None:
    opened = Pack(pack)
    entry = opened.manifest["networks"][0]["ours"][0]["library"]
    assert opened.unpack(entry, tmp_path / "net.so").stat().st_size == entry["size"]
    for wrong in ({"sha256": "0" * 64}, {"size": entry["size"] - 1}, {"size": entry["size"] + 1}):
        with pytest.raises(Stop, match="does not unpack to what was packed"):
            opened.unpack({**entry, **wrong}, tmp_path / "net.so")


def test_results_of_another_pack_and_other_files_are_refused(pack: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    for text, says in (
        ("{", "holds no results"),
        (json.dumps({"version": 1, "pack": "0" * 64, "rows": {}, "runs": []}), "of another pack"),
    ):
        out.write_text(text)
        code, words = run_only(pack, out)
        assert code == 2 and says in words and out.read_text() == text


def test_results_of_another_gpu_are_refused(pack: Path, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    run(pack, out)
    document = json.loads(out.read_text())
    document["runs"][0]["cuda"]["names"] = ["NVIDIA H200"]
    out.write_text(json.dumps(document))
    code, words, results = run(pack, out)
    assert code == 2 and results == document
    assert "holds results of NVIDIA H200, and here is emulated: name another file by --out" in words


def run_only(pack: Path, out: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "run.py", "--out", str(out)], cwd=pack, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


def test_the_kernels_that_are_counted_are_those_that_run(pack: Path, tmp_path: Path) -> None:
    opened = Pack(pack)
    entry = opened.manifest["networks"][0]
    library = opened.unpack(entry["ours"][0]["library"], tmp_path / "net.so")
    sample = opened.unpack(entry["input"], tmp_path / "x.npy")
    counted = launches(library, sample, counting_driver(tmp_path))
    log = tmp_path / "log"
    argv = [ensure_runtime("x86_64").program, "run", library, "--input", sample, "--device", "cuda"]
    options = ["--graph", "off", "--state", tmp_path / "state", "--output", tmp_path / "y.npz"]
    environment = {"EDGE_CUDA_DRIVER": str(ensure_emulated_cuda()), "EDGE_CUDA_LOG": str(log)}
    subprocess.run([*argv, *options], env=environment, check=True, timeout=60, capture_output=True)
    calls = [json.loads(line).get("call") for line in log.read_text().splitlines()]
    assert counted == calls.count("cuLaunchKernel") > 0
    with np.load(tmp_path / "y.npz") as found:
        assert np.isfinite(found["output_0"]).all()


def test_a_pack_that_is_too_large_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="larger than 1 MiB with edge-rt"):
        write_pack(tmp_path / "pack", wanted(limit=2**20), lambda _: None)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="has contents"):
        write_pack(tmp_path, wanted(), lambda _: None)
