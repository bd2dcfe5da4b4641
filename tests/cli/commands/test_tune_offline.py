"""`tune --export`, `edge-rt measure`, `tune --import`: the whole way, and what does not go together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.building.network import written
from tests.cli.running import Toolchain
from tests.tuning.offline.conftest import measured
from toolchain.testbeds.cuda import ensure_emulated_cuda

pytestmark = pytest.mark.usefixtures("state")
SHORT = ("--repeat", "2", "--min-repeat-ms", "1")
CUDA = ("--device", "cuda", "--arch", "emulated")


@pytest.fixture
def model(files: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    return str(written(files))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), CUDA, ("--device", "opencl")], ids=["cpu", "cuda", "opencl"])
def test_tune_offline_from_export_to_build(
    options: tuple[str, ...],
    invoke: Toolchain,
    model: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "cuda" in options:
        monkeypatch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))
    listed = invoke("tasks", model, "--board", "local", *options, "--json").document
    (task,) = [each["id"] for each in listed if each["name"] == "fused_conv2d_add_relu"]
    common = ["tune", model, "--board", "local", *options, "--tasks", task, "--trials", 2, *SHORT]
    exported = invoke(*common, "--export", files / "out", "--json").document
    assert (exported["candidates"], exported["tasks"], exported["left_out"]) == (3, 1, [])
    assert exported["bytes"] < 8 << 20
    said = measured(files / "out")
    assert (said["measured"], said["failed"]) == (3, 0)
    results = files / "out" / "results"
    good = results.read_text()
    results.write_text(good.replace('"ms": [', '"ms": [1e-300, '))
    refused = invoke(*common, "--import", files / "out", "--json")
    assert refused.code == 4 and "builds use them" not in refused.err, "nothing is stored"
    results.write_text(good)
    told = invoke(*common, "--import", files / "out", "--json")
    imported = told.document
    assert (imported["trials"], imported["failed"], imported["boards"]) == (2, 0, {"offline local": 2})
    (tuned,) = imported["tasks"]
    assert tuned["id"] == task and tuned["best_ms"] <= tuned["default_ms"]
    # Records are those of the device that measured, which its driver names.
    named = re.search(r"builds use them with --device '?([a-z]+:[^'\s]+)", told.err)
    assert bool(named) == bool(options)
    builds = ("--device", named[1], *options[2:]) if named else ()
    built = invoke("build", model, "--board", "local", *builds, "-o", files / "made", "--json")
    assert built.code == 0, built.err
    assert built.document["tasks"]["tuned"] == 1


@pytest.mark.slow
def test_offline_tuning_prints_next_steps(invoke: Toolchain, model: str, files: Path) -> None:
    listed = invoke("tasks", model, "--board", "local", "--json").document
    common = ["tune", model, "--board", "local", "--tasks", listed[0]["id"], "--trials", 1, *SHORT]
    out = invoke(*common, "--export", files / "out").out
    assert "2 candidates of 1 task" in out and "caches are not flushed" in out
    assert "out/edge-rt measure out" in out
    small = invoke(*common, "--export", files / "small", "--max-mib", "1")
    assert small.code == 2 or small.code == 1
    assert "--max-mib 1: edge-rt and a known-good kernel do not fit" in small.err
    measured(files / "out")
    told = invoke(*common, "--import", files / "out")
    assert "no cache is flushed in between" in told.out and "or else the fastest measured" in told.err
    assert invoke(*common, "--export", files / "out").code == 2
    (files / "empty").mkdir()
    assert "is no exported folder" in invoke(*common, "--import", files / "empty").err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--export", "a", "--import", "."), "--export and --import do not go together"),
        (("--export", "a", "--dry-run"), "--export and --dry-run do not go together"),
        (("--import", ".", "--runner", "boards"), "--import and --runner do not go together"),
    ],
)
def test_refuses_exclusive_options(
    options: tuple[str, ...], says: str, invoke: Toolchain, files: Path
) -> None:
    assert (files / "good.onnx").exists()
    refused = invoke("tune", "good.onnx", "--board", "local", *options)
    assert refused.code == 2 and says in refused.err
