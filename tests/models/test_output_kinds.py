"""Outputs are divided where a network joins them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.deviation import divide
from toolchain.models.output_kinds import joined_parts
from toolchain.models.preparing.infer_shapes import infer_shapes

Chain = Sequence[tuple[str, dict[str, Any], dict[str, np.ndarray]]]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def joined(chain: Chain, axis: int = 1) -> onnx.ModelProto:
    """Return a network that joins a and b to [1,12,6] on an axis, and then computes a chain of nodes."""
    shapes = [[1, 4, 6], [1, 8, 6]] if axis == 1 else [[1, 12, 2], [1, 12, 4]]
    nodes = [helper.make_node("Concat", ["a", "b"], ["0"], axis=axis)]
    weights: dict[str, np.ndarray] = {}
    for number, (operator, attributes, stored) in enumerate(chain, 1):
        names = [f"{number}.{name}" for name in stored]
        weights |= dict(zip(names, stored.values(), strict=True))
        nodes.append(helper.make_node(operator, [str(number - 1), *names], [str(number)], **attributes))
    inputs = [tensor_info(name, shape) for name, shape in zip("ab", shapes, strict=True)]
    outputs = [tensor_info(str(len(chain)), None)]
    return infer_shapes(graph_of(nodes, inputs, outputs, weights), "test")


def computed(model: onnx.ModelProto) -> np.ndarray:
    """Return the output where a is 1 and b is 1000 everywhere."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = {
        value.name: np.full([d.dim_value for d in value.type.tensor_type.shape.dim], size, np.float32)
        for value, size in zip(model.graph.input, (1, 1000), strict=True)
    }
    return np.asarray(session.run(None, inputs)[0])


CHAINS: dict[str, Chain] = {
    "none": [],
    "a reshape that merges axes": [("Reshape", {}, {"shape": ints(1, 72)})],
    "a reshape that divides an axis": [("Reshape", {}, {"shape": ints(1, 3, 4, 6)})],
    "a transposition": [("Transpose", {"perm": [2, 0, 1]}, {})],
    "a transposition, then a reshape": [
        ("Transpose", {"perm": [0, 2, 1]}, {}),
        ("Reshape", {}, {"shape": ints(72, 1)}),
    ],
    "a slice": [("Slice", {}, {"starts": ints(2), "ends": ints(9), "axes": ints(1)})],
    "a slice counted from the end": [("Slice", {}, {"starts": ints(-9), "ends": ints(99), "axes": ints(-2)})],
    "an axis more": [("Unsqueeze", {}, {"axes": ints(0)})],
    "what is computed for each value": [
        ("Sigmoid", {}, {}),
        ("Mul", {}, {"by": np.full((12, 1), 3, np.float32)}),
    ],
}


@pytest.mark.parametrize(
    ("chain", "axis"),
    [*((chain, 1) for chain in CHAINS.values()), (CHAINS["a reshape that merges axes"], 2)],
    ids=[*CHAINS, "rows of several parts"],
)
def test_part_holds_values_of_one_tensor(chain: Chain, axis: int) -> None:
    model = joined(chain, axis)
    output = computed(model)
    assert len(np.unique(output)) == 2
    (ends,) = joined_parts(model).values()
    assert all(len(np.unique(output[part.slices])) == 1 for part in divide(output.shape, ends))
    assert all(at[-1] == output.shape[axis] for axis, at in ends.items())


def test_each_output_of_a_split_has_its_share() -> None:
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("Split", ["c", "sizes"], ["x", "y"], axis=1),
    ]
    model = graph_of(
        nodes,
        [tensor_info("a", [1, 4]), tensor_info("b", [1, 8])],
        [tensor_info("x", None), tensor_info("y", None)],
        {"sizes": ints(3, 9)},
    )
    assert joined_parts(infer_shapes(model, "test")) == {"y": {1: (1, 9)}}


def test_mixing_operator_ends_the_search() -> None:
    assert joined_parts(joined([("Softmax", {"axis": 1}, {})])) == {}
    assert joined_parts(joined([("MatMul", {}, {"w": np.ones((6, 3), np.float32)})])) == {}


def test_joints_of_two_axes_make_a_grid() -> None:
    model = joined([])
    model.graph.node.append(helper.make_node("Concat", ["0", "0"], ["twice"], axis=2))
    model.graph.output[0].CopyFrom(tensor_info("twice", None))
    assert joined_parts(infer_shapes(model, "test")) == {"twice": {1: (4, 12), 2: (6, 12)}}
