"""Bundles on boards for real: this host, and aarch64 under qemu."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest

from tests.measuring.changed import code, nothing_left, with_library
from tests.measuring.small_network import INPUT, built
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.bundles.read import Bundle
from toolchain.errors import CheckError, UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.run import run_bundle
from toolchain.measuring.verify import verify_bundle

pytestmark = pytest.mark.slow


def with_facts(bundle: Bundle, **facts: object) -> Bundle:
    return dataclasses.replace(bundle, manifest=bundle.manifest.model_copy(update=facts))


def test_verify_passes_on_this_host(for_local: Bundle, local: Board) -> None:
    found = verify_bundle(for_local, local)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["passed"]
    assert [output["name"] for output in document["outputs"]] == ["logits,1", "prob"]
    assert all(output["max_rel_error"] < 1e-5 for output in document["outputs"])
    assert document["outputs"][1]["compared_as"] == "log-probabilities"
    assert (document["board"], document["emulated"], document["shared_cpu"]) == ("local", False, True)
    assert document["threads"] == local.profile.clusters[0].cores
    found.check()
    assert nothing_left(local)


def test_verify_passes_on_aarch64(for_rk3399: Bundle, rk3399: Board) -> None:
    document = verify_bundle(for_rk3399, rk3399).to_json()
    assert document["passed"]
    assert (document["machine"], document["emulated"]) == ("aarch64", True)
    assert document["threads"] == 2


def test_verify_passes_on_armv7(tmp_path: Path) -> None:
    board = emulated.start("pynq", kind="process", name="arm")
    try:
        found = verify_bundle(built("pynq", tmp_path, format="tar"), board)
        found.check()
        document = found.to_json()
        assert (document["machine"], document["emulated"], document["threads"]) == ("armv7l", True, 2)
    finally:
        emulated.stop("arm")


def test_a_bundle_of_objects_is_linked_for_the_board(tmp_path: Path, rk3399: Board) -> None:
    assert verify_bundle(built("rk3399", tmp_path, format="tar"), rk3399).passed


def test_run_computes_on_the_users_data(for_local: Bundle, local: Board) -> None:
    import onnxruntime

    data = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    outputs = run_bundle(for_local, local, {INPUT: np.asfortranarray(data)}, threads=1)
    session = onnxruntime.InferenceSession(str(for_local.path.parent / "small.onnx"))
    assert list(outputs) == ["logits,1", "prob"]
    for name, reference in zip(outputs, session.run(list(outputs), {INPUT: data}), strict=True):
        np.testing.assert_allclose(outputs[name], reference, rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="gpu_0/data_0"):
        run_bundle(for_local, local, {})


def test_bench_says_how_long_and_under_which_conditions(for_local: Bundle, local: Board) -> None:
    found = bench_bundle(for_local, local, repeat=120, min_repeat_ms=1, threads=1, profile=True)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (document["runs"], document["threads"]) == (120, 1)
    ordered = [document[key] for key in ("min_ms", "p50_ms", "p95_ms", "p99_ms")]
    assert ordered[0] > 0 and ordered == sorted(ordered)
    assert ordered[0] <= document["mean_ms"]
    assert document["number"] * document["mean_ms"] >= 0.5
    assert document["peak_rss_mib"] > 1
    assert document["noise"] == pytest.approx(document["std_ms"] / document["mean_ms"])
    assert {"governor", "temperature_c", "cluster", "shared_cpu", "emulated", "machine"} <= set(document)
    assert document["device"] == "cpu"
    conv = next(operator for operator in document["operators"] if "conv" in operator["name"])
    assert conv["calls"] == 1
    assert nothing_left(local)


def test_bench_ends_with_its_budget_and_knows_what_it_does_not_know(
    for_rk3399: Bundle, rk3399: Board
) -> None:
    begun = time.monotonic()
    found = bench_bundle(for_rk3399, rk3399, repeat=9, time_s=3.0)
    assert time.monotonic() - begun < 40
    assert found.p99_ms is None
    assert found.runs <= 9
    assert not found.confident
    assert any("silicon" in warning for warning in found.warnings)
    assert "operators" not in found.to_json()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"number": 0}, "--number 0"),
        ({"repeat": 0}, "--repeat 0"),
        ({"time_s": -1.0}, "--time -1"),
        ({"threads": 0}, "--threads 0"),
        ({"timeout": 0.0}, "--timeout 0"),
        ({"cluster": "cortex-a53"}, "--cluster cortex-a53"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    for_local: Bundle, local: Board, options: dict[str, float], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        bench_bundle(for_local, local, **options)


def test_another_cluster_than_the_bundles_warns(for_rk3399: Bundle, rk3399: Board) -> None:
    found = verify_bundle(for_rk3399, rk3399, cluster="cortex-a53")
    assert found.passed
    assert found.threads == 4
    assert "built for cluster cortex-a72 but runs on cortex-a53" in found.warnings[0]
    assert found.to_json()["cluster"] == "cortex-a53"


def test_a_bundle_for_another_machine_says_how_to_build_the_right_one(
    for_rk3399: Bundle, for_local: Bundle, local: Board, rk3399: Board
) -> None:
    with pytest.raises(
        UsageError, match=r"bundle for another board: built for aarch64 \(rk3399\), board local is"
    ) as raised:
        verify_bundle(for_rk3399, local)
    assert "--board local" in raised.value.hint
    with pytest.raises(UsageError, match=r"board measured is aarch64 \(rk3399\)"):
        bench_bundle(for_local, rk3399)
    assert local.transport.listing("bin") == {}, "nothing was sent"


def test_a_bundle_that_needs_other_cpu_features_names_them(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match=r"needs the CPU features sve9, telepathy, which board local lacks"):
        run_bundle(with_facts(for_local, requires=("sve9", "telepathy")), local, for_local.sample)


def test_a_bundle_for_a_device_that_is_not_there_is_refused_by_name(for_local: Bundle, local: Board) -> None:
    needs = RuntimeNeeds(devices=("npu",))
    with pytest.raises(UsageError, match=r"built for npu:x, it needs a device of kind npu") as raised:
        run_bundle(with_facts(for_local, device="npu:x", runtime=needs), local, for_local.sample)
    assert "--board local" in raised.value.hint
    assert local.transport.listing("lib") == {}, "the library was not sent"


def test_a_bundle_whose_functions_are_not_there_is_refused_by_name(for_local: Bundle, local: Board) -> None:
    needs = RuntimeNeeds(functions=("edge.npu.run",))
    with pytest.raises(UsageError, match=r"its library calls edge\.npu\.run, which edge-rt on board local"):
        bench_bundle(with_facts(for_local, device="npu:1x16x16", runtime=needs), local)


def test_a_bundle_for_an_unknown_device_that_asks_for_nothing_runs(for_local: Bundle, local: Board) -> None:
    found = verify_bundle(with_facts(for_local, device="toy:3"), local)
    assert found.passed and found.to_json()["device"] == "toy:3"
    asked = with_facts(for_local, device="toy:3", runtime=RuntimeNeeds(devices=("cpu",)))
    assert verify_bundle(asked, local).passed, "edge-rt is told --device cpu"


def test_a_bundle_for_a_newer_c_library_is_refused(for_local: Bundle, local: Board) -> None:
    with pytest.raises(UsageError, match=r"built for glibc 9\.99 and later"):
        verify_bundle(with_facts(for_local, glibc="9.99"), local)


def test_one_channel_of_the_wrong_sign_fails_and_the_worst_element_is_shown(
    for_local: Bundle, local: Board, tmp_path: Path
) -> None:
    wrong = built("local", tmp_path, flipped=2)
    found = verify_bundle(with_library(for_local, wrong.library), local)
    assert not found.passed
    with pytest.raises(
        CheckError, match=r"output '(logits,1|prob)': error .* above .*worst at \[0, \d\]: "
    ) as raised:
        found.check()
    assert raised.value.exit_code == 4
    assert "without tuning records" in raised.value.hint
    with pytest.raises(CheckError, match=r"float16 may be too coarse.*--dtype float32"):
        dataclasses.replace(found, dtype="float16").check()


def test_one_changed_instruction_fails(for_rk3399: Bundle, rk3399: Board) -> None:
    library = bytearray(for_rk3399.library)
    begin, end = code(for_rk3399.library)
    # Arm ARM C7.2: FMLA (vector) and FMLA (by element), 4S, differ from FMLS in one bit.
    forms = {(0xFFE0FC00, 0x4E20CC00): 1 << 23, (0xFFC0F400, 0x4F801000): 1 << 14}
    for at in range(begin, end, 4):
        word = int.from_bytes(library[at : at + 4], "little")
        flip = next((bit for (mask, form), bit in forms.items() if word & mask == form), 0)
        if flip:
            library[at : at + 4] = (word ^ flip).to_bytes(4, "little")
            break
    assert bytes(library) != for_rk3399.library
    found = verify_bundle(with_library(for_rk3399, bytes(library)), rk3399)
    assert not found.passed
    assert found.comparison.worst.worst_index is not None
