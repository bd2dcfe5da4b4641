"""Networks whose input varies in length: a reader of text lines, masked attention, an LSTM with lengths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_FLOAT, _BOOL, _INT32 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT32


class _Graph:
    """Nodes and weights, seeded."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int, scale: float) -> str:
        return self.constant((self.generator.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, f"weight{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [f"value{len(self.nodes)}"], **attributes))
        return str(self.nodes[-1].output[0])

    def save(
        self, path: Path, inputs: Sequence[tuple[str, int, list[int | str]]], output: str, axes: int
    ) -> Path:
        self.nodes.append(helper.make_node("Identity", [output], ["y"]))
        given = [helper.make_tensor_value_info(*each) for each in inputs]
        wanted = [helper.make_tensor_value_info("y", _FLOAT, [None] * axes)]
        graph = helper.make_graph(self.nodes, path.stem, given, wanted, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, str(path))
        return path


def recogniser(
    path: Path, channels: Sequence[int] = (16, 32, 64), hidden: int = 32, classes: int = 40, height: int = 16
) -> Path:
    """Write a recogniser of text lines, `x` (n, 3, height, w): convolutions, pools, a bidirectional LSTM."""
    graph = _Graph()
    value, before = "x", 3
    for number, after in enumerate(channels):
        weight = graph.weight(after, before, 3, 3, scale=(2 / (9 * before)) ** 0.5)
        value = graph.node(
            "Conv", value, weight, graph.weight(after, scale=0.1), kernel_shape=[3, 3], pads=[1] * 4
        )
        value = graph.node("Relu", value)
        steps = [2, 2] if number < 2 else [2, 1]
        if height > 1:
            value = graph.node("MaxPool", value, kernel_shape=steps, strides=steps)
            height //= 2
        before = after
    columns = graph.node("ReduceMean", value, axes=[2], keepdims=0)
    sequence = graph.node("Transpose", columns, perm=[2, 0, 1])
    inputs = graph.weight(2, 4 * hidden, before, scale=before**-0.5)
    states = graph.weight(2, 4 * hidden, hidden, scale=hidden**-0.5)
    value = graph.node("LSTM", sequence, inputs, states, hidden_size=hidden, direction="bidirectional")
    value = graph.node("Transpose", value, perm=[0, 2, 1, 3])
    value = graph.node("Reshape", value, graph.constant(np.array([0, 0, 2 * hidden])))
    value = graph.node("MatMul", value, graph.weight(2 * hidden, classes, scale=hidden**-0.5))
    size = 2 ** len(channels) * (height or 1)
    return graph.save(path, [("x", _FLOAT, ["n", 3, size, "w"])], value, 3)


def attention(path: Path, width: int = 32) -> Path:
    """Write self-attention over `x` (1, t, width) that reads only where `mask` (1, t) is true."""
    graph = _Graph()
    query, key, held = (
        graph.node("MatMul", "x", graph.weight(width, width, scale=width**-0.5)) for _ in "qkv"
    )
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 2, 1]))
    seen = graph.node("Unsqueeze", "mask", graph.constant(np.array([1])))
    hidden = graph.constant(np.array(-1e9, np.float32))
    share = graph.node("Softmax", graph.node("Where", seen, scores, hidden), axis=-1)
    value = graph.node("Add", "x", graph.node("MatMul", share, held))
    inputs = [("x", _FLOAT, [1, "t", width]), ("mask", _BOOL, [1, "t"])]
    return graph.save(path, inputs, value, 3)


def lstm_with_lengths(path: Path, width: int = 16, hidden: int = 16) -> Path:
    """Write an LSTM over `x` (t, n, width) that ends after `lengths` (n) steps."""
    graph = _Graph()
    inputs = graph.weight(2, 4 * hidden, width, scale=width**-0.5)
    states = graph.weight(2, 4 * hidden, hidden, scale=hidden**-0.5)
    value = graph.node(
        "LSTM", "x", inputs, states, "", "lengths", hidden_size=hidden, direction="bidirectional"
    )
    given = [("x", _FLOAT, ["t", "n", width]), ("lengths", _INT32, ["n"])]
    return graph.save(path, given, value, 4)


def detector(path: Path, stride: float = 640.0) -> Path:
    """Write a detector over `x` (1, 8, w) whose scores are relative to the mean of all places.

    Its output has boxes of four numbers in pixels, and four scores to 1, at each place.
    """
    graph = _Graph()
    values = []
    for begin in (0, 4):
        bounds = (graph.constant(np.array([at])) for at in (begin, begin + 4, 1))
        values.append(graph.node("Slice", "x", *bounds))
    boxes, logits = values
    boxes = graph.node("Mul", boxes, graph.constant(np.array(stride, np.float32)))
    mean = graph.node("ReduceMean", logits, axes=[2], keepdims=1)
    scores = graph.node("Sigmoid", graph.node("Sub", logits, mean))
    return graph.save(path, [("x", _FLOAT, [1, 8, "w"])], graph.node("Concat", boxes, scores, axis=1), 3)
