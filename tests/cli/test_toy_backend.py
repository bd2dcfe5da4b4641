"""A backend from outside of the package goes the whole way through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from edge_toy.backend import POINTS

from tests.cli.running import Toolchain
from tests.plugins import ROOT, TOY
from tests.toy_network import write_project
from toolchain.bundles.read import read_bundle

HERE = ("small.onnx", "--board", "local", "--device", "toy")


@pytest.mark.slow
@pytest.mark.usefixtures("state", "toy")
@pytest.mark.parametrize("tuner", ["gridsearch", "xgb"])
def test_it_is_tuned_built_bundled_and_verified(invoke: Toolchain, tuner: str) -> None:
    tasks = invoke("tasks", *HERE, "--json").document
    assert len(tasks) == 1 and tasks[0]["weight"] == 2

    tuned = invoke("tune", *HERE, "--tuner", tuner, "--trials", "100", "--json").document
    assert (tuned["trials"], tuned["failed"]) == (len(POINTS) - 1, 0), "all but the default, then it is told"
    assert tuned["boards"] == {}
    again = invoke("tune", *HERE, "--tuner", tuner, "--trials", "100", "--json").document
    assert again["trials"] == 0, "nothing is measured twice"

    (best,) = invoke("records", "best", "--json").document
    assert (best["device"], best["kind"], best["workload"][:8]) == ("toy:numpy", "toy", tasks[0]["id"])

    built = invoke("build", *HERE, "--require-tuned", "-o", "out", "--json").document
    assert built["tasks"]["tuned"] == 1
    manifest = read_bundle(Path(built["bundle"])).manifest
    assert (manifest.device, manifest.runtime.devices, manifest.layout) == ("toy:numpy", (), "plain")
    assert invoke("verify", built["bundle"], "--board", "local", "--json").document["passed"]


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_run_is_reported_at_its_end_and_again_from_the_records(invoke: Toolchain, toy: Path) -> None:
    tuned = invoke("tune", *HERE, "--trials", "4", "--scheduler", "round-robin", "--report", "end.html")
    assert tuned.code == 0
    again = invoke("report", "-o", "again.html", "--json").document
    assert (again["tasks"], again["trials"]) == (1, 4)
    pages = [(toy / name).read_text() for name in ("end.html", "again.html")]
    assert all(again["run"] in page and "<svg" in page for page in pages)
    assert "small.onnx on " in pages[0] and "these tasks, untuned" in pages[0]


@pytest.mark.slow
@pytest.mark.usefixtures("state", "toy")
def test_its_records_say_nothing_to_cpus(invoke: Toolchain) -> None:
    invoke("tune", *HERE, "--trials", "2")
    built = invoke("build", "small.onnx", "--board", "local", "-o", "out", "--json").document
    assert built["tasks"]["tuned"] == 0


@pytest.mark.usefixtures("state", "toy")
def test_error_names_what_toy_backend_lacks(invoke: Toolchain) -> None:
    layout = invoke("tasks", *HERE, "--layout", "NHWC")
    assert layout.code == 2 and layout.says("--layout NHWC", "--device toy", "plain")
    runner = invoke("tune", *HERE, "--runner", "model")
    assert runner.code == 2 and runner.says("--runner model", "numpy")
    tuner = invoke("tune", *HERE, "--tuner", "evolutionary")
    assert tuner.code == 2 and tuner.says("--tuner evolutionary", "random")


@pytest.mark.usefixtures("state")
def test_its_classes_say_how_large_its_tiles_are(invoke: Toolchain, toy: Path) -> None:
    board = toy / "boards" / "x86_64" / "board.toml"
    written = board.read_text()
    board.write_text(written.replace("most_rows = 8", "most_rows = 3"))
    odd = invoke("tasks", *HERE)
    assert odd.code == 2 and odd.says("most_rows of its toy is 3", "use 2, 4 or 8")
    board.write_text(written.replace("most_rows = 8", ""))
    assert invoke("tasks", *HERE).says("a device of kind toy needs: most_rows")


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_pip_installs_it(folder: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    write_project(folder)
    without = toolchain("tasks", *HERE)
    assert without.code == 2 and without.says("no such kind of device; the kinds are: cpu, opencl, cuda, vta")
    site = tmp_path / "site"
    command = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([sys.executable, *command, "--target", site, TOY], check=True, timeout=300)
    listed = toolchain("tasks", *HERE, "--json", PYTHONPATH=os.pathsep.join([str(site), str(ROOT)]))
    assert listed.code == 0 and len(listed.document) == 1, listed.err
