"""Shapes, sizes and identities are known without values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import Dimensions, graph_of, tensor_info
from toolchain.models.folding.fold import fold

INT = TensorProto.INT64


def stored(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the values that the folded graph stores."""
    graph = fold(model, "test").model.graph
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def asking(operator: str, shape: Dimensions, **attributes: int) -> onnx.ModelProto:
    nodes = [helper.make_node(operator, ["x"], ["y"], **attributes)]
    return graph_of(nodes, [tensor_info("x", shape)], [tensor_info("y", None, INT)], {})


places = st.none() | st.integers(-6, 6)


@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=4), start=places, end=places)
def test_shape_attributes_slice_like_python(shape: list[int], start: int | None, end: int | None) -> None:
    asked = {name: place for name, place in (("start", start), ("end", end)) if place is not None}
    (found,) = stored(asking("Shape", shape, **asked)).values()
    assert found.dtype == np.int64 and found.tolist() == shape[start:end]


def test_the_known_part_of_an_open_shape_is_stored() -> None:
    (found,) = stored(asking("Shape", ("n", 3, 4), start=1)).values()
    assert found.tolist() == [3, 4]


@pytest.mark.parametrize(("shape", "attributes"), [(("n", 3), {}), (("n", 3), {"end": 1}), (None, {})])
def test_open_shape_slice_stays_computed(shape: Dimensions, attributes: dict[str, int]) -> None:
    nodes = fold(asking("Shape", shape, **attributes), "test").model.graph.node
    assert [node.op_type for node in nodes] == ["Shape"]


@pytest.mark.parametrize(("shape", "size"), [((2, 3, 4), 24), ((), 1), ((2**20, 2**20), 2**40)])
def test_the_number_of_elements(shape: tuple[int, ...], size: int) -> None:
    (found,) = stored(asking("Size", shape)).values()
    assert found.shape == () and found == size


def test_size_of_open_shape_stays_computed() -> None:
    assert [node.op_type for node in fold(asking("Size", ("n", 3)), "test").model.graph.node] == ["Size"]


def test_identity_chain_folds_to_first_name() -> None:
    nodes = [helper.make_node("Identity", [source], [made]) for source, made in ("xa", "ab", "bc")]
    nodes.append(helper.make_node("Add", ["c", "a"], ["y"]))
    model = graph_of(nodes, [tensor_info("x", (2,))], [tensor_info("y", (2,))], {})
    (node,) = fold(model, "test").model.graph.node
    assert node.op_type == "Add" and list(node.input) == ["x", "x"]


@pytest.mark.parametrize("opset", [7, 9, 10, 13])
def test_the_mask_of_a_dropout_has_a_shape(opset: int) -> None:
    """onnx infers it since set 10; what reads it could not be folded else."""
    code = TensorProto.FLOAT if opset < 10 else TensorProto.BOOL
    nodes = [
        helper.make_node("Dropout", ["x"], ["d", "mask"]),
        helper.make_node("Shape", ["mask"], ["extents"]),
        helper.make_node("Reshape", ["d", "extents"], ["y"]),
    ]
    model = graph_of(nodes, [tensor_info("x", (2, 3))], [tensor_info("y", (2, 3))], {}, opset)
    assert [found.tolist() for found in stored(model).values()] == [[2, 3]]
    assert not fold(model, "test").problems
    model.graph.output.append(tensor_info("mask", (2, 3), code))
    (_, mask) = fold(model, "test").model.graph.output
    assert mask.type.tensor_type.elem_type == code
