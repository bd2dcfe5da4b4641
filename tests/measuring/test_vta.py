"""A bundle whose network runs on a VTA, on this host, which can simulate one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Toolchain
from tests.runtime import vta_network
from tests.vta.regions import case
from toolchain.boards.board import Board
from toolchain.bundles.manifest import RuntimeNeeds, Tensor
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import Execution, OnBoard, Sampling
from toolchain.measuring.run import run_bundle
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def for_vta(for_local: Bundle) -> Bundle:
    """Return a network that is one program, as a bundle."""
    wanted = case()
    x, y = (each.reshape(vta_network.VALUE) for each in (wanted.x, wanted.y))
    tensors = [(Tensor(name=name, shape=vta_network.VALUE, dtype="int8"),) for name in "xy"]
    manifest = for_local.manifest.model_copy(
        update={
            "model": for_local.manifest.model.model_copy(update={"softmax_outputs": (), "flops": 1024}),
            "device": "vta:1x16_i8w8a32_15_15_18_17",
            "runtime": RuntimeNeeds(devices=("vta",), functions=(vta_network.FUNCTION,)),
            "inputs": tensors[0],
            "outputs": tensors[1],
        }
    )
    library = vta_network.library((wanted.blob,))
    return dataclasses.replace(
        for_local, manifest=manifest, library=library, sample={"x": x}, expected={"y": y}
    )


def test_simulated_vta_computes_expected_outputs(for_vta: Bundle, local: Board) -> None:
    found = verify_bundle(for_vta, OnBoard(local), Execution(device="vta:sim"))
    assert found.passed and found.to_json()["ran_on"] == "vta:sim"
    assert any("a simulation" in warning for warning in found.warnings)
    outputs = run_bundle(for_vta, OnBoard(local), for_vta.sample, Execution(device="vta:sim"))
    np.testing.assert_array_equal(outputs["y"], for_vta.expected["y"])


def test_bench_reports_modelled_and_measured_time(for_vta: Bundle, local: Board) -> None:
    found = bench_bundle(for_vta, OnBoard(local), Sampling(repeat=3), Execution(device="vta:sim"))
    assert found.modelled is not None and found.modelled["version"] == 1
    assert found.modelled["ms"] == pytest.approx(found.modelled["cycles"] / 1e5)
    assert found.to_json()["modelled"] == found.modelled
    assert found.mean_ms > 0 and len(found.times_ms) == 3
    assert any("say nothing about an accelerator's" in warning for warning in found.warnings)


def test_default_device_is_the_real_accelerator(for_vta: Bundle, local: Board) -> None:
    with pytest.raises(UsageError) as error:
        verify_bundle(for_vta, OnBoard(local))
    assert "no Zynq-7000" in error.value.message
    assert error.value.hint == "--device vta:sim simulates it"


def test_a_bundle_that_was_built_for_the_simulation_runs_there(for_vta: Bundle, local: Board) -> None:
    manifest = for_vta.manifest.model_copy(update={"device": "vta:sim"})
    simulated = dataclasses.replace(for_vta, manifest=manifest)
    found = verify_bundle(simulated, OnBoard(local))
    assert found.passed and found.place["ran_on"] == "vta:sim"
    with pytest.raises(UsageError, match="was built for vta:sim") as raised:
        verify_bundle(simulated, OnBoard(local), Execution(device="cpu"))
    assert "leave --device out" in raised.value.hint


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("vta:pynq", "board local has no such device"),
        ("opencl:0", "was built for vta:"),
        ("cpu", "was built for vta:"),
    ],
)
def test_refuses_impossible_device(for_vta: Bundle, local: Board, device: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        verify_bundle(for_vta, OnBoard(local), Execution(device=device))


def test_refuses_device_of_another_kind(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match="was built for cpu"):
        bench_bundle(for_local, OnBoard(local), Sampling(repeat=1), Execution(device="vta:sim"))
    assert (
        bench_bundle(for_local, OnBoard(local), Sampling(repeat=1), Execution(device="cpu")).modelled is None
    )


@pytest.mark.usefixtures("local")
def test_bench_prints_modelled_time(invoke: Toolchain, for_vta: Bundle, tmp_path: Path) -> None:
    from toolchain.bundles.write import write_bundle

    path = tmp_path / "vta.bundle"
    write_bundle(path, for_vta.manifest, for_vta.library, for_vta.sample, for_vta.expected)
    done = invoke("bench", path, "--board", "local", "--repeat", "2", "--device", "vta:sim")
    assert done.code == 0, done.err
    assert "cycle model 1:" in done.out and "a modelled time, not measured on a board" in done.out
