"""Networks in integers on a VTA, from the first command to the last: the machine in software computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.running import Toolchain
from tests.models.quantising.networks import Block, network
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import POWERS_OF_TWO, ModelOptions
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow

BLOCKS = (Block(20, stride=2, shortcut="projection"), Block(20, shortcut="identity"))
POOLED = (Block(8, pool=True), Block(8, shortcut="identity"))
COMMON = ("net.onnx", "--board", "local", "--device", "vta:sim", "--dtype", "int8")
EXACT = 1e-5
"""Of the largest output: one integer that is another moves it by hundreds of times as much."""


@pytest.fixture
def file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))  # other tests have records, too
    onnx.save(network(BLOCKS), folder / "net.onnx")
    np.save(folder / "nan.npy", np.full((1, 3, 9, 9), np.nan, np.float32))
    np.save(folder / "small.npy", np.zeros((1, 3, 9, 8), np.float32))


@pytest.mark.usefixtures("state", "file")
def test_a_network_is_tuned_built_verified_and_timed(invoke: Toolchain, folder: Path) -> None:
    tuned = invoke("tune", *COMMON, "--tuner", "random", "--trials", "6", "--json")
    assert tuned.code == 0 and tuned.document["failed"] == 0, tuned.err
    built = invoke("build", *COMMON, "-o", "out", "--json")
    assert built.code == 0, built.err
    tasks = built.document["tasks"]
    assert tasks["tuned"] == tasks["total"] == 3 and set(built.document["rules"].values()) == {"vta"}
    assert all(record["modelled"] for record in built.document["records"])
    bundle = built.document["bundle"]
    manifest = read_bundle(Path(bundle)).manifest
    assert (manifest.device, manifest.runtime.devices) == ("vta:sim", ("vta",))
    assert manifest.runtime.functions == ("edge.vta.run",)

    verified = invoke("verify", bundle, "--board", "local", "--json")
    assert verified.code == 0 and verified.document["passed"], verified.err
    assert verified.document["outputs"][0]["max_abs_error"] < EXACT
    np.save(folder / "x.npy", np.full((1, 3, 9, 9), np.float32(0.5)))
    ran = invoke("run", bundle, "--board", "local", "--input", "data=x.npy", "-o", "y.npz")
    assert ran.code == 0 and np.isfinite(np.load(folder / "y.npz")["logits"]).all(), ran.err
    timed = invoke("bench", bundle, "--board", "local", "--repeat", "3", "--json")
    assert timed.code == 0 and timed.document["modelled"]["cycles"] > 0, timed.err


@pytest.mark.usefixtures("state", "file")
def test_what_was_tuned_on_the_cpu_alone_serves_beside_a_vta(invoke: Toolchain, folder: Path) -> None:
    onnx.save(network(POOLED), folder / "net.onnx")
    beside = invoke("build", *COMMON, "-o", "out", "--json").document["beside"]
    first = next(row["task"] for row in beside["records"] if "conv2d" in row["name"])
    assert beside["tasks"]["tuned"] == 0 and beside["rules"][first] != "vta"
    on_cpu = ("net.onnx", "--board", "local", "--dtype", "int8", "--quantizer", "power-of-two")
    tuned = invoke("tune", *on_cpu, "--tasks", first, "--trials", "2", "--json")
    assert tuned.code == 0, tuned.err
    built = invoke("build", *COMMON, "-o", "out", "--json").document
    (row,) = [row for row in built["beside"]["records"] if row["how"]]
    assert (row["task"], row["how"], row["board"], row["modelled"]) == (first, "exact", "local", False)
    assert built["beside"]["tasks"]["tuned"] == 1 and built["tasks"]["tuned"] == 0
    facts = {task.id: task for task in read_bundle(Path(built["bundle"])).manifest.tasks}
    assert facts[first].tuned and facts[first].rule == built["beside"]["rules"][first]
    assert len(facts) == built["tasks"]["total"] + built["beside"]["tasks"]["total"]
    assert invoke("verify", built["bundle"], "--board", "local", "--json").document["passed"]
    said = invoke("build", *COMMON, "-o", "out")
    assert f"in addition, on the CPU: {built['beside']['tasks']['total']} tasks, 1 with a record" in said.out


@pytest.mark.usefixtures("state", "file")
def test_a_simulation_is_asked_for_by_name(invoke: Toolchain) -> None:
    plain = ["vta" if each == "vta:sim" else each for each in COMMON]
    bundle = invoke("build", *plain, "--format", "tar", "-o", "out", "--json").document["bundle"]
    refused = invoke("verify", bundle, "--board", "local")
    assert refused.code != 0 and "vta:sim" in refused.err
    assert invoke("verify", bundle, "--board", "local", "--device", "vta:sim").code == 0


@pytest.mark.usefixtures("state", "file")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--board", "local", "--device", "vta"], ["computes in 8-bit integers", "--dtype int8"]),
        (["--board", "rk3399", "--device", "vta", "--dtype", "int8"], ["rk3399 has no such device"]),
        (
            ["--board", "pynq", "--device", "vta:pink", "--dtype", "int8"],
            ["--device vta:pink: a VTA has no driver of this name", "vta:pynq, vta:sim"],
        ),
        (
            ["--board", "pynq", "--device", "vta", "--dtype", "int8", "--start-pack", "mean"],
            ["nothing of the network can go to a VTA: before mean", "--start-pack and --stop-pack"],
        ),
        (
            ["--board", "pynq", "--device", "vta", "--dtype", "int8", "--calibrate", "data=nan.npy"],
            ["--calibrate data: nan.npy holds NaN or infinity in 243 of 243 places", "numpy.isfinite"],
        ),
        (
            ["--board", "pynq", "--device", "vta", "--dtype", "int8", "--calibrate", "data=small.npy"],
            [
                "small.npy is float32[1, 3, 9, 8], the input data [1, 3, 9, 9]",
                "first dimension counts images",
            ],
        ),
        (
            ["--board", "pynq", "--device", "vta", "--dtype", "int8", "--start-pack", "gelu"],
            ["--start-pack gelu: the network has no such operator", "it has:"],
        ),
        (["--board", "pynq", "--start-pack", "relu"], ["only a VTA has regions", "--device vta"]),
    ],
)
def test_what_cannot_be(invoke: Toolchain, typed: list[str], said: list[str]) -> None:
    ran = invoke("tasks", "net.onnx", *typed)
    assert ran.code == 2 and ran.says(*said), ran.err


@pytest.mark.usefixtures("state", "file")
def test_a_board_measures_by_what_is_named(invoke: Toolchain) -> None:
    plain = ["vta" if each == "vta:sim" else each for each in COMMON]
    refused = invoke("tune", *plain, "--runner", "boards", "--trials", "1")
    assert refused.code == 2 and refused.says(
        "--device vta: board local has none", "no Zynq-7000", "name one that it has: --device vta:sim"
    ), refused.err
    tuned = invoke("tune", *COMMON, "--runner", "boards", "--tuner", "random", "--trials", "2", "--json")
    assert tuned.code == 0 and tuned.document["failed"] == 0, tuned.err
    assert tuned.document["boards"] == {"local": 2}
    assert all(task["modelled"] for task in tuned.document["tasks"])
    assert tuned.says("on local") and not tuned.says("vta-model"), tuned.err


@pytest.mark.usefixtures("state", "file")
def test_a_board_behind_ssh_simulates_what_was_built_for_the_accelerator(
    invoke: Toolchain, folder: Path
) -> None:
    started = invoke("board", "emulate", "start", "pynq", "--kind", "container", "--name", "box")
    assert started.code == 0, started.err
    try:
        options = ("--device", "vta", "--dtype", "int8", "-o", "out", "--json")
        built = invoke("build", "net.onnx", "--board", "box", *options)
        assert built.code == 0, built.err
        bundle = built.document["bundle"]
        refused = invoke("verify", bundle, "--board", "box")
        assert refused.code == 2 and refused.says("no Zynq-7000", "--device vta:sim simulates it"), (
            refused.err
        )
        there = ("--board", "box", "--device", "vta:sim")
        verified = invoke("verify", bundle, *there, "--json")
        assert verified.code == 0 and verified.document["outputs"][0]["max_abs_error"] < EXACT, verified.err
        assert (verified.document["machine"], verified.document["ran_on"]) == ("armv7l", "vta:sim")
        timed = invoke("bench", bundle, *there, "--repeat", "2", "--json")
        assert timed.code == 0 and timed.document["modelled"]["cycles"] > 0, timed.err
        np.save(folder / "x.npy", np.full((1, 3, 9, 9), np.float32(0.5)))
        ran = invoke("run", bundle, *there, "--input", "data=x.npy", "-o", "y.npz")
        assert ran.code == 0 and np.isfinite(np.load(folder / "y.npz")["logits"]).all(), ran.err
    finally:
        assert invoke("board", "emulate", "stop", "box").code == 0


@pytest.mark.usefixtures("state")
def test_resnet_18_on_an_emulated_pynq(pynq: Board, tmp_path: Path) -> None:
    verified("zoo:resnet-18", "power-of-two", pynq, tmp_path)


@pytest.mark.full
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("quantizer", POWERS_OF_TWO)
@pytest.mark.parametrize("name", ["resnet-18", "resnet-34", "resnet-50", "mobilenet", "squeezenet_v1.1"])
def test_deep_networks_on_this_host(name: str, quantizer: str, tmp_path: Path) -> None:
    verified(f"zoo:{name}", quantizer, find_board("local"), tmp_path)


def verified(source: str, quantizer: str, board: Board, folder: Path) -> None:
    """Build a network as one region, and verify that its integers are onnxruntime's."""
    model = load_model(source, ModelOptions(quantizer=quantizer))
    how = BuildOptions(code=CodeOptions(device="vta:sim", dtype="int8"))
    built = build(model, find_target(board.profile.name), None, folder, how)
    result = verify_bundle(read_bundle(built.bundle), OnBoard(board))
    (output,) = result.comparison.outputs
    assert result.passed and output.max_abs_error < EXACT, result
