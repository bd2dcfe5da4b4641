"""A bundle on a user's data, and the bundles that a board refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.measuring.changed import with_facts
from tests.measuring.small_network import INPUT
from toolchain.boards.board import Board
from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import Execution, OnBoard
from toolchain.measuring.run import run_bundle
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow


def test_run_uses_given_inputs(for_local: Bundle, local: Board) -> None:
    import onnxruntime

    data = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    outputs = run_bundle(for_local, OnBoard(local), {INPUT: np.asfortranarray(data)}, Execution(threads=1))
    session = onnxruntime.InferenceSession(str(for_local.path.parent / "small.onnx"))
    assert list(outputs) == ["logits,1", "prob"]
    for name, reference in zip(outputs, session.run(list(outputs), {INPUT: data}), strict=True):
        np.testing.assert_allclose(outputs[name], reference, rtol=1e-4, atol=1e-5)
    swapped = run_bundle(for_local, OnBoard(local), {INPUT: data.astype(">f4")}, Execution(threads=1))
    np.testing.assert_array_equal(swapped["prob"], outputs["prob"])
    with pytest.raises(UsageError, match="gpu_0/data_0"):
        run_bundle(for_local, OnBoard(local), {})


def test_a_bundle_for_another_machine_says_how_to_build_the_right_one(
    for_rk3399: Bundle, for_local: Bundle, local: Board, rk3399: Board
) -> None:
    with pytest.raises(
        UsageError, match=r"bundle for another board: built for aarch64 \(rk3399\), board local is"
    ) as raised:
        verify_bundle(for_rk3399, OnBoard(local))
    assert "--board local" in raised.value.hint
    with pytest.raises(UsageError, match=r"board measured is aarch64 \(rk3399\)"):
        bench_bundle(for_local, OnBoard(rk3399))
    assert local.transport.listing("bin") == {}, "nothing was sent"


def test_error_names_required_cpu_features(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match=r"needs the CPU features sve9, telepathy, which board local lacks"):
        run_bundle(with_facts(for_local, requires=("sve9", "telepathy")), OnBoard(local), for_local.sample)


def test_refuses_bundle_for_absent_device(for_local: Bundle, local: Board) -> None:
    needs = RuntimeNeeds(devices=("npu",))
    with pytest.raises(UsageError, match=r"built for npu:x, it needs a device of kind npu") as raised:
        run_bundle(with_facts(for_local, device="npu:x", runtime=needs), OnBoard(local), for_local.sample)
    assert "--board local" in raised.value.hint
    assert local.transport.listing("lib") == {}, "the library was not sent"


def test_refuses_bundle_with_unknown_functions(for_local: Bundle, local: Board) -> None:
    needs = RuntimeNeeds(functions=("edge.npu.run",))
    with pytest.raises(UsageError, match=r"its library calls edge\.npu\.run, which edge-rt on board local"):
        bench_bundle(with_facts(for_local, device="npu:1x16x16", runtime=needs), OnBoard(local))


def test_a_bundle_for_an_unknown_device_that_asks_for_nothing_runs(for_local: Bundle, local: Board) -> None:
    found = verify_bundle(with_facts(for_local, device="toy:3"), OnBoard(local))
    assert found.passed and found.to_json()["device"] == "toy:3"
    asked = with_facts(for_local, device="toy:3", runtime=RuntimeNeeds(devices=("cpu",)))
    assert verify_bundle(asked, OnBoard(local)).passed, "edge-rt is told --device cpu"


def test_refuses_bundle_for_newer_glibc(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match=r"built for glibc 9\.99 and later"):
        verify_bundle(with_facts(for_local, glibc="9.99"), OnBoard(local))
