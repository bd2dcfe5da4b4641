"""Bundles of several shapes: a version of the manifest of their own."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from toolchain.bundles import Manifest, Tensor, read_bundle, write_bundle
from toolchain.bundles.manifest import (
    ONE_SHAPE,
    SEVERAL_SHAPES,
    OutputParts,
    OutputTolerance,
    ShapeFacts,
)
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.measuring.shapes import shape_for, shapes_at

Write = Callable[..., Path]
SMALL = ShapeFacts(
    inputs=(
        Tensor(name="gpu_0/data_0", shape=(1, 2), dtype="float32"),
        Tensor(name="n", shape=(), dtype="int64"),
    ),
    outputs=(Tensor(name="gpu_0/prob", shape=(1, 3), dtype="float32"),),
    flops=7,
    tolerances=(OutputTolerance(output="gpu_0/prob", step=None, number=0.5, reason="why"),),
    parts=(OutputParts(output="gpu_0/prob", axis=1, ends=(1, 3)),),
)
OTHER = (
    {"gpu_0/data_0": np.array([[4, 5]], "float32"), "n": np.array(6, "int64")},
    {"gpu_0/prob": np.array([[7, 8, 9]], "float32")},
)


@pytest.fixture
def two(write: Write, manifest: Manifest, tmp_path: Path) -> Path:
    both = manifest.model_copy(update={"shapes": (SMALL,), "pad": True})
    return write(tmp_path / "two.bundle", manifest=both, others=[OTHER])


def test_both_shapes_come_back_each_as_a_bundle_of_its_own(two: Path, manifest: Manifest) -> None:
    bundle = read_bundle(two)
    with tarfile.open(two) as archive:
        names = [name for name in archive.getnames() if name.endswith(".npy")]
    assert names[:3] == ["sample/0.npy", "sample/1.npy", "expected/0.npy"]
    assert names[3:] == ["shapes/1/sample/0.npy", "shapes/1/sample/1.npy", "shapes/1/expected/0.npy"]
    small, large = bundle.each()
    assert large.manifest.model_copy(update={"files": {}}) == manifest
    assert (small.manifest.inputs, small.manifest.outputs) == (SMALL.inputs, SMALL.outputs)
    assert small.manifest.tolerances == SMALL.tolerances and small.manifest.model.flops == SMALL.flops
    assert small.manifest.parts == SMALL.parts and not large.manifest.parts
    assert small.library == large.library and small.sha256 == large.sha256 == bundle.sha256
    for found, wanted in ((small.sample, OTHER[0]), (small.expected, OTHER[1])):
        assert all(np.array_equal(found[name], array) for name, array in wanted.items())


def test_one_shape_is_a_bundle_by_itself(bundle: Path) -> None:
    found = read_bundle(bundle)
    assert [each is found for each in found.each()] == [True]


@pytest.mark.parametrize(
    ("version", "absent"), [(ONE_SHAPE, {"shapes", "pad", "parts"}), (SEVERAL_SHAPES, {"parts"})]
)
def test_earlier_versions_keep_their_keys(
    version: int, absent: set[str], write: Write, manifest: Manifest, tmp_path: Path
) -> None:
    several = version == SEVERAL_SHAPES
    shapes = (SMALL.model_copy(update={"parts": ()}),) if several else ()
    early = manifest.model_copy(update={"schema_version": version, "shapes": shapes})
    path = write(tmp_path / "early.bundle", manifest=early, others=[OTHER] if several else [])
    with tarfile.open(path) as archive:
        values = json.loads(archive.extractfile("manifest.json").read())
    assert values["schema_version"] == version and not absent & set(values)
    assert not any("parts" in shape for shape in values.get("shapes", []))
    bundle = read_bundle(path)
    assert not bundle.manifest.by_parts
    assert {each.manifest.schema_version for each in bundle.each()} == {ONE_SHAPE}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"schema_version": SEVERAL_SHAPES, "shapes": ()},
            f"schema_version {SEVERAL_SHAPES} is that of several",
        ),
        ({"schema_version": ONE_SHAPE}, f"schema_version {SEVERAL_SHAPES} is that of several shapes"),
        ({"schema_version": SEVERAL_SHAPES}, f"parts: no key of version {SEVERAL_SHAPES}"),
        ({"shapes": ()}, "pad is for several shapes"),
        ({"shapes": (SMALL, SMALL)}, "two are the same"),
        ({"shapes": (SMALL.model_copy(update={"inputs": SMALL.inputs[:1]}),)}, "shapes.0.inputs differ"),
        ({"shapes": (SMALL.model_copy(update={"outputs": SMALL.inputs[:1]}),)}, "shapes.0.outputs differ"),
        ({"shapes": (SMALL,) * 16}, "at most 15"),
    ],
)
def test_shapes_that_do_not_go_together_are_no_manifest(
    two: Path, changed: dict[str, Any], message: str
) -> None:
    values = read_bundle(two).manifest.model_copy(update=changed).model_dump()
    with pytest.raises(ValidationError, match=message):
        Manifest.model_validate(values)


def test_a_damaged_sample_of_any_shape_is_found(two: Path) -> None:
    data = bytearray(two.read_bytes())
    data[data.rindex(np.array([7, 8, 9], "<f4").tobytes())] ^= 1
    two.write_bytes(data)
    with pytest.raises(CheckError, match=r"shapes/1/expected/0\.npy does not match"):
        read_bundle(two)


def test_limits_count_the_tensors_of_all_shapes(
    two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = read_bundle(two)
    monkeypatch.setattr("toolchain.bundles.layout.MAX_TENSORS", 5)
    with pytest.raises(ToolchainError, match="6 inputs and outputs, more than the 5 allowed"):
        write_bundle(
            tmp_path / "x", bundle.manifest, bundle.library, bundle.sample, bundle.expected, bundle.others
        )


def inputs(columns: int, dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"gpu_0/data_0": np.zeros((1, columns), dtype), "n": np.array(1, "int64")}


def test_the_shape_of_inputs_is_found(two: Path) -> None:
    bundle = read_bundle(two)
    for columns in (2, 3):
        (tensor, _n) = shape_for(bundle, inputs(columns)).manifest.inputs
        assert tensor.shape == (1, columns)
    (tensor, _n) = shape_for(bundle, inputs(1), pad=True).manifest.inputs
    assert tensor.shape == (1, 2), "the smallest that it fits into"
    for pad, columns in ((False, 1), (True, 4)):
        with pytest.raises(UsageError, match=r"--input: gpu_0/data_0=1,\d n= .*none of the bundle") as caught:
            shape_for(bundle, inputs(columns), pad=pad)
        assert caught.value.hint.startswith("there are: gpu_0/data_0=1,2 n=; gpu_0/data_0=1,3 n=")
    assert "add --pad" not in caught.value.hint
    with pytest.raises(UsageError) as caught:
        shape_for(bundle, inputs(1))
    assert "--pad" in caught.value.hint
    with pytest.raises(UsageError, match="dtype float64 where float32"):
        shape_for(bundle, inputs(2, "float64"))
    with pytest.raises(UsageError, match="the input 'n' is missing"):
        shape_for(bundle, {"gpu_0/data_0": np.zeros((1, 2), "float32")})


def test_padding_is_for_bundles_that_were_built_for_it(two: Path, bundle: Path) -> None:
    with pytest.raises(UsageError, match="has one shape"):
        shape_for(read_bundle(bundle), inputs(2), pad=True)
    found = read_bundle(two)
    exact = found.manifest.model_copy(update={"pad": False})
    with pytest.raises(UsageError, match="was built without it"):
        shape_for(type(found)(**{**vars(found), "manifest": exact}), inputs(1), pad=True)


def test_at_picks_shapes(two: Path, bundle: Path) -> None:
    found = read_bundle(two)
    assert [each.manifest.inputs[0].shape for each in shapes_at(found, [])] == [(1, 2), (1, 3)]
    (only,) = shapes_at(found, ["gpu_0/data_0=1,3"])
    assert only.manifest.inputs[0].shape == (1, 3)
    for wanted, message in (
        (["gpu_0/data_0=1,4"], "--at gpu_0/data_0=1,4: the bundle has no such shape"),
        (["gpu_0/data_0=1,2", "gpu_0/data_0=1,3"], "no such shape"),
        (["data"], "--at data: not NAME=D,D"),
    ):
        with pytest.raises(UsageError, match=message):
            shapes_at(found, wanted)
    assert shapes_at(read_bundle(bundle), ["gpu_0/data_0=1,3"])
