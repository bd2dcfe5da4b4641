"""A check of a file is the first half of loading it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from tvm_ffi import structural_equal

from tests.models.graphs import classifier
from toolchain.errors import UsageError
from toolchain.models.judging.reference import sample_inputs
from toolchain.models.load import check_source, load_model
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    onnx.save(classifier(shape=("n", 3, 8, 8)), path)
    return str(path)


OPTIONS: dict[str, Any] = {
    "floats": {"batch": 1},
    "a cut": {"batch": 1, "outputs": ("logits",)},
    "integers": {"batch": 1, "quantizer": "mse"},
    "a shape": {"shapes": {"data": (2, 3, 8, 8)}},
    "two shapes": shape_options("{1,2}", ()),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_network_is_the_same_whether_it_was_checked_before(file: str, options: dict[str, Any]) -> None:
    how = ModelOptions(**options)
    alone, after = load_shapes(file, how), load_shapes(file, how, check_source(file, how))
    assert structural_equal(alone.module, after.module)
    for one, other in zip(alone.shapes, after.shapes, strict=True):
        assert (one.onnx, one.inputs, one.outputs) == (other.onnx, other.inputs, other.outputs)
        assert (one.sha256, one.judged, one.softmax_outputs) == (
            other.sha256,
            other.judged,
            other.softmax_outputs,
        )


def test_checked_source_is_not_read_again(file: str) -> None:
    options = ModelOptions(batch=1)
    half_loaded = check_source(file, options)
    Path(file).unlink()
    model = load_model(file, options, half_loaded)
    assert model.source == str(Path(file).resolve()) and list(sample_inputs(model)) == ["data"]
    with pytest.raises(UsageError, match="there is no file"):
        load_model(file, options)


def test_networks_of_the_zoo_are_not_made_for_a_check() -> None:
    assert check_source("zoo:mobilenet", ModelOptions()) is None
