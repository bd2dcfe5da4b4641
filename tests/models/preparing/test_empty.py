"""Tensors that hold nothing: refused where code would have to be made for them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.errors import UsageError
from toolchain.models.preparing.tensor_types import check_not_empty

EMPTY = np.zeros((0,), np.float32)


def resize(roi: np.ndarray = EMPTY) -> onnx.ModelProto:
    """Return what exporters write: a Resize whose region and scales are empty, as its sizes are given."""
    return graph_of(
        [helper.make_node("Resize", ["x", "roi", "scales", "sizes"], ["y"])],
        [tensor_info("x", (1, 1, 2, 2))],
        [tensor_info("y", (1, 1, 4, 4))],
        {"roi": roi, "scales": EMPTY, "sizes": np.array([1, 1, 4, 4])},
    )


def test_empty_parameter_counts_as_omitted() -> None:
    check_not_empty(resize(), "net.onnx")


def test_refuses_empty_tensor_with_shape() -> None:
    model = resize(np.zeros((0, 4), np.float32))
    model.graph.node.append(helper.make_node("Neg", ["roi"], ["z"]))
    with pytest.raises(UsageError, match=r"^net\.onnx: the tensor roi=0,4 is empty") as caught:
        check_not_empty(model, "net.onnx")
    assert caught.value.hint and caught.value.exit_code == 2


@pytest.mark.parametrize("where", ["input", "inside", "output"])
def test_an_empty_value_is_refused_wherever_it_is(where: str) -> None:
    shapes = {name: (2, 0) if name == where else (2, 1) for name in ("input", "inside", "output")}
    nodes = [helper.make_node("Relu", ["input"], ["inside"]), helper.make_node("Neg", ["inside"], ["output"])]
    model = graph_of(
        nodes, [tensor_info("input", shapes["input"])], [tensor_info("output", shapes["output"])], {}
    )
    model.graph.value_info.append(tensor_info("inside", shapes["inside"]))
    with pytest.raises(UsageError, match=f"the tensor {where}=2,0(, the result of .*,)? is empty"):
        check_not_empty(model, "net.onnx")


def test_accepts_empty_tensor_without_reader() -> None:
    model = graph_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor_info("x", (2,)), tensor_info("unused", (0,))],
        [tensor_info("y", (2,))],
        {"stored": EMPTY},
    )
    check_not_empty(model, "net.onnx")


def test_an_open_dimension_is_not_taken_for_an_empty_one() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    check_not_empty(graph_of(nodes, [tensor_info("x", ("n", 3))], [tensor_info("y", None)], {}), "net.onnx")
