"""One bundle of a network in several shapes: weights stored once, each shape verified, padding checked."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.sequences import attention, detector, lstm_with_lengths, recogniser
from toolchain.backends.packed.network.agreement import Agreement
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.building.padding import check_padding
from toolchain.building.tolerances import Expectation
from toolchain.bundles.manifest import SCHEMA_VERSION
from toolchain.bundles.read import read_bundle
from toolchain.errors import UsageError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.shapes import shape_of
from toolchain.measuring.verify import verify_bundle
from toolchain.models import multi_shape as several
from toolchain.models.judging.reference import seeded_reference
from toolchain.models.load import Model
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.releases.terms import Terms, state
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow


def loaded(source: Path, *shapes: str, batch: str | None = None) -> Model:
    return load_shapes(str(source), ModelOptions(**shape_options(batch, shapes)))


def built(model: Model, folder: Path, board: str = "local", **options: Any) -> BuildResult:
    return build(model, find_target(board), None, folder, BuildOptions(**options))


def test_four_widths_are_little_larger_than_the_largest(tmp_path: Path) -> None:
    source = recogniser(tmp_path / "recogniser.onnx", (32, 64, 128, 256), hidden=128, classes=96, height=48)
    four = built(loaded(source, "x=1,3,48,{160,320,480,640}"), tmp_path / "four")
    one = built(loaded(source, "x=1,3,48,640"), tmp_path / "one")
    assert four.copied == {} and four.size.bundle <= 1.15 * one.size.bundle
    bundle, single = read_bundle(four.bundle), read_bundle(one.bundle)
    assert (bundle.manifest.schema_version, single.manifest.schema_version) == (SCHEMA_VERSION,) * 2
    each = bundle.each()
    assert [shape_of(shape.manifest) for shape in each] == [f"x=1,3,48,{w}" for w in (160, 320, 480, 640)]
    flops = [shape.manifest.model.flops for shape in each]
    assert flops == sorted(flops) and flops[-1] == single.manifest.model.flops
    np.testing.assert_array_equal(bundle.sample["x"], single.sample["x"])
    for shape in each:
        assert verify_bundle(shape, OnBoard(find_board("local"))).passed, shape_of(shape.manifest)


def test_without_agreement_weights_would_be_stored_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = recogniser(tmp_path / "recogniser.onnx", (32, 64, 128), hidden=32, height=16)
    shapes = "x=1,3,16,{8,640}"
    assert built(loaded(source, shapes), tmp_path / "agreed").copied == {}
    monkeypatch.setattr(Agreement, "agreed", lambda _self, _contraction, _weight, own: own)
    apart = built(loaded(source, shapes), tmp_path / "apart")
    assert sum(apart.copied.values()) > 10_000


def test_copied_weights_are_reported(tmp_path: Path) -> None:
    source = recogniser(tmp_path / "recogniser.onnx")
    result = built(loaded(source, "x={1,4},3,16,40"), tmp_path / "out")
    assert list(result.copied) and all(name.startswith("lstm") for name in result.copied)
    assert result.to_json()["copied"] == result.copied
    for shape in read_bundle(result.bundle).each():
        assert verify_bundle(shape, OnBoard(find_board("local"))).passed


@pytest.mark.parametrize(
    "code",
    [CodeOptions(dtype="float16"), CodeOptions(layout="NCHW"), CodeOptions(layout="NHWC")],
    ids=["float16", "NCHW", "NHWC"],
)
def test_other_code_shares_constants_too(tmp_path: Path, code: CodeOptions) -> None:
    source = recogniser(tmp_path / "recogniser.onnx")
    board = "raspberrypi5" if code.dtype == "float16" else "local"
    result = built(loaded(source, "x=1,3,16,{16,40}"), tmp_path / "out", board, code=code)
    assert result.copied == {}
    if board == "local":
        for shape in read_bundle(result.bundle).each():
            assert verify_bundle(shape, OnBoard(find_board("local"))).passed


def test_code_for_cuda_computes_every_shape(tmp_path: Path) -> None:
    model = loaded(recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,{16,40}")
    code = CodeOptions(device="cuda", arch="emulated")
    result = built(model, tmp_path / "out", "cuda", code=code, check=True)  # all shapes are run
    assert result.copied == {} and result.checked and result.checked.passed


def test_masks_and_lengths_allow_padding_and_every_shape_is_verified(tmp_path: Path) -> None:
    for source, shape, counts in (
        (attention(tmp_path / "attention.onnx"), "x=1,{16,24,64},32", 3),
        (lstm_with_lengths(tmp_path / "lengths.onnx"), "x={5,9},2,16", 2),
    ):
        result = built(loaded(source, shape), tmp_path / "out", pad=True)
        bundle = read_bundle(result.bundle)
        assert bundle.manifest.pad and len(bundle.each()) == counts
        for each in bundle.each():
            assert verify_bundle(each, OnBoard(find_board("local"))).passed, (
                source.stem,
                shape_of(each.manifest),
            )


def test_padding_that_changes_an_output_is_refused(tmp_path: Path) -> None:
    source = recogniser(tmp_path / "recogniser.onnx")
    with pytest.raises(
        UsageError, match=r"from x=1,3,16,40 to x=1,3,16,64 computes something else: output 'y'"
    ):
        built(loaded(source, "x=1,3,16,{40,64}"), tmp_path / "out", pad=True)
    with pytest.raises(UsageError, match="--pad: there is only one shape"):
        built(loaded(source, "x=1,3,16,40"), tmp_path / "out", pad=True)
    assert not (tmp_path / "out").exists()


def test_padding_that_changes_a_small_part_of_an_output_is_refused(tmp_path: Path) -> None:
    model = loaded(detector(tmp_path / "detector.onnx"), "x=1,8,{16,32}")
    with pytest.raises(UsageError, match=r"computes something else: output 'y'.* part \[:, 4:8\]"):
        built(model, tmp_path / "out", pad=True)
    assert not (tmp_path / "out").exists()


def test_a_sample_is_for_the_shape_that_it_has(tmp_path: Path) -> None:
    model = loaded(recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,{16,40}")
    sample = {"x": np.full((1, 3, 16, 16), 0.5, np.float32)}
    bundle = read_bundle(built(model, tmp_path / "out", sample=sample).bundle)
    small, large = bundle.each()
    np.testing.assert_array_equal(small.sample["x"], sample["x"])
    assert large.sample["x"].std() > 0.5
    with pytest.raises(UsageError, match=r"in no such shape: 'x' \[1, 3, 16, 17\]") as caught:
        built(model, tmp_path / "out", sample={"x": np.zeros((1, 3, 16, 17), np.float32)})
    assert "x=1,3,16,40; x=1,3,16,16" in caught.value.hint


def test_shapes_that_come_out_the_same_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = recogniser(tmp_path / "recogniser.onnx")
    same = loaded(source, "x=1,3,16,16")
    monkeypatch.setattr(several, "load_model", lambda *_arguments: same)
    with pytest.raises(UsageError, match=r"two of these shapes are the same for .*\.onnx: x=1,3,16,16"):
        loaded(source, "x=1,3,16,{16,40}")


def test_integers_and_vtas_are_of_one_shape(tmp_path: Path) -> None:
    source = str(recogniser(tmp_path / "recogniser.onnx"))
    lists = shape_options(None, ["x=1,3,16,{16,40}"])
    with pytest.raises(UsageError, match="integers are of one shape"):
        load_shapes(source, ModelOptions(quantizer="mse", **lists))
    backend = backend_for(find_target("pynq").profile, CodeOptions(device="vta", dtype="int8"))
    with pytest.raises(UsageError, match="--device vta: recogniser is asked for in 2 shapes"):
        backend.lower(load_shapes(source, ModelOptions(**lists)), backend.target())


def test_a_release_has_the_library_and_the_largest_shapes_sample(tmp_path: Path) -> None:
    model = loaded(recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,{16,40}")
    bundle = read_bundle(built(model, tmp_path / "out").bundle)
    times = {"issued": 1_700_000_000, "expires": 1_900_000_000, "timeout_s": 1}
    terms = Terms("reader", "1.0.0", classes=["x86_64"], **times)
    statement = state(bundle, terms)
    whole, *parts = statement.subject
    assert whole.digest.sha256 == bundle.sha256
    assert [part.name for part in parts] == ["manifest.json", "library.so", "sample/0.npy", "expected/0.npy"]
    assert len(statement.predicate.test.outputs) == len(bundle.manifest.outputs) == 1
    content, end = bundle.path.read_bytes(), 0
    for part, size in zip(parts, statement.predicate.sizes, strict=True):  # in this order, nothing between
        end = content.index(part.name.encode(), end) + 512
        assert hashlib.sha256(content[end : end + size]).hexdigest() == part.digest.sha256
        end += size


def test_padding_needs_a_shape_to_grow_into(tmp_path: Path) -> None:
    model = loaded(recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,16")
    with pytest.raises(UsageError, match="none of the shapes fits into another"):
        check_padding(model, [Expectation(seeded_reference(model))], 1e-3)


def test_samples_that_no_bundle_holds_are_refused_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = loaded(recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,{16,40}")
    monkeypatch.setattr("toolchain.bundles.layout.MAX_TENSORS", 3)
    with pytest.raises(
        UsageError, match=r"2 shapes: samples and expected outputs of 0\.0 MiB.* 4 inputs and"
    ):
        built(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()
