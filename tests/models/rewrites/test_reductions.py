"""Reductions without axes, and of integers, give onnxruntime's numbers or are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded, refused
from toolchain.models.rewrites.rules import REDUCTIONS_RULES as RULES

pytestmark = pytest.mark.slow

SHAPE = (2, 3, 4)
INTEGRAL = sorted({*RULES} - {"ReduceL2", "ReduceLogSum", "ReduceLogSumExp"})


def reductions(
    operators: list[str],
    code: int = TensorProto.FLOAT,
    axes: list[int] | None = None,
    opset: int = 18,
    **attributes: int,
) -> onnx.ModelProto:
    """Return a network with an output of each reduction; None: the nodes have no axes."""
    weights = {} if axes is None or opset < 18 else {"axes": np.array(axes, np.int64)}
    along = {} if weights or axes is None else {"axes": axes}
    nodes = [helper.make_node(each, ["x", *weights], [each], **attributes, **along) for each in operators]
    outputs = [tensor_info(each, None, code) for each in operators]
    return graph_of(nodes, [tensor_info("x", SHAPE, code)], outputs, weights, opset)


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [None, []], ids=["no axes", "empty axes"])
def test_without_axes_all_or_each_element(axes: list[int] | None, noop: int, tmp_path: Path) -> None:
    model = loaded(reductions(sorted(RULES), axes=axes, noop_with_empty_axes=noop), tmp_path)
    assert_same(model, inputs={"x": np.random.default_rng(1).uniform(0.5, 2, SHAPE).astype(np.float32)})


def test_one_element_has_a_magnitude_and_a_square(tmp_path: Path) -> None:
    of_each = ["ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare"]
    model = loaded(reductions(of_each, noop_with_empty_axes=1, keepdims=0), tmp_path)
    assert_same(model, inputs={"x": np.linspace(-2, 2, 24, dtype=np.float32).reshape(SHAPE)})


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_mean_of_integers_is_cut_off(keep: int, opset: int, tmp_path: Path) -> None:
    model = loaded(reductions(["ReduceMean"], TensorProto.INT32, [1], opset, keepdims=keep), tmp_path)
    assert_same(model, inputs={"x": np.arange(-11, 13, dtype=np.int32).reshape(SHAPE)})


def test_other_reductions_of_integers(tmp_path: Path) -> None:
    model = loaded(reductions(INTEGRAL, TensorProto.INT32, [-1, 0]), tmp_path)
    assert_same(model, inputs={"x": np.arange(-11, 13, dtype=np.int32).reshape(SHAPE)})


@pytest.mark.parametrize("operator", sorted({*RULES} - {*INTEGRAL}))
def test_a_root_of_integers_is_refused(operator: str, tmp_path: Path) -> None:
    error = refused(reductions([operator], TensorProto.INT32, [1]), tmp_path)
    assert f"unsupported use of {operator} (node '{operator}'): its input is of integers" in error.message
    assert "cast the input to float32" in str(error)
