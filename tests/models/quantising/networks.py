"""Small residual networks, as an exporter would write them, and what their integers are by numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.quantising.shift_graph import Layer

SIZE = 9
CLASSES = 6


@dataclass(frozen=True)
class Block:
    """Two convolutions and what is added to the second: `identity`, `projection` or nothing; then a pool."""

    width: int
    kernel: int = 3
    stride: int = 1
    shortcut: str = ""
    activation: str = "Relu"
    scale: float = 1.0
    pool: bool = False


def blocks() -> st.SearchStrategy[tuple[Block, ...]]:
    """Draw one to three blocks."""
    block = st.builds(
        Block,
        width=st.integers(1, 7),
        kernel=st.sampled_from([1, 3, 5]),
        stride=st.integers(1, 2),
        shortcut=st.sampled_from(["", "identity", "projection"]),
        activation=st.sampled_from(["Relu", "Clip", ""]),
        scale=st.sampled_from([1e-3, 0.3, 1.0, 40.0]),
    )
    return st.lists(block, min_size=1, max_size=3).map(tuple)


def network(blocks: Sequence[Block], seed: int = 0, batch: int = 1) -> onnx.ModelProto:
    """Return a classifier: input `data`, a first convolution, the blocks, pooling, outputs `logits`."""
    random = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    nodes: list[onnx.NodeProto] = []

    def conv(name: str, x: str, width_in: int, width: int, kernel: int, stride: int, scale: float) -> str:
        fan_in = width_in * kernel * kernel
        weights[f"{name}.w"] = (
            random.standard_normal((width, width_in, kernel, kernel)) * scale * np.sqrt(2 / fan_in)
        ).astype(np.float32)
        weights[f"{name}.b"] = (random.standard_normal(width) * 0.2 * scale).astype(np.float32)
        pads = [kernel // 2] * 4
        inputs = [x, f"{name}.w", f"{name}.b"]
        nodes.append(helper.make_node("Conv", inputs, [name], name, pads=pads, strides=[stride] * 2))
        return name

    def activated(name: str, x: str, kind: str) -> str:
        if not kind:
            return x
        inputs = [x]
        if kind == "Clip":
            weights.setdefault("zero", np.float32(0))
            weights.setdefault("six", np.float32(6))
            inputs += ["zero", "six"]
        nodes.append(helper.make_node(kind, inputs, [name], name))
        return name

    x, width = activated("stem.act", conv("stem", "data", 3, 5, 3, 1, 1.0), "Relu"), 5
    for number, block in enumerate(blocks):
        name = f"b{number}"
        y = activated(
            f"{name}.act1",
            conv(f"{name}.conv1", x, width, block.width, block.kernel, block.stride, 1.0),
            block.activation,
        )
        same = block.shortcut == "identity" and block.stride == 1
        wide = width if same else block.width
        y = conv(f"{name}.conv2", y, block.width, wide, 3, 1, block.scale)
        if same or block.shortcut == "projection":
            other = x if same else conv(f"{name}.project", x, width, wide, 1, block.stride, 1.0)
            nodes.append(helper.make_node("Add", [y, other], [f"{name}.sum"], f"{name}.sum"))
            y = f"{name}.sum"
        x, width = activated(f"{name}.act2", y, block.activation), wide
        if block.pool:
            nodes.append(
                helper.make_node("MaxPool", [x], [f"{name}.pool"], kernel_shape=[3, 3], pads=[1] * 4)
            )
            x = f"{name}.pool"
    weights["fc.w"] = random.standard_normal((CLASSES, width)).astype(np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["pool"], "pool"),
        helper.make_node("Flatten", ["pool"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "fc.w"], ["logits"], "fc", transB=1),
    ]
    inputs = [tensor_info("data", (batch, 3, SIZE, SIZE))]
    return graph_of(nodes, inputs, [tensor_info("logits", (batch, CLASSES))], weights)


def integers(layer: Layer, x: np.ndarray, residual: np.ndarray | None) -> np.ndarray:
    """Compute a layer in 64-bit integers, tap by tap."""
    top, left, bottom, right = layer.site.pads
    down, across = layer.site.strides
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    _, _, taps_y, taps_x = layer.weight.shape
    rows = (padded.shape[2] - taps_y) // down + 1
    columns = (padded.shape[3] - taps_x) // across + 1
    sums = np.zeros((len(x), len(layer.weight), rows, columns), np.int64)
    for i in range(taps_y):
        for j in range(taps_x):
            part = padded[:, :, i : i + rows * down : down, j : j + columns * across : across]
            sums += np.einsum(
                "oc,nchw->nohw", layer.weight[:, :, i, j].astype(np.int64), part[:, :, :rows, :columns]
            )
    along = (1, -1, 1, 1)
    if residual is not None:
        sums += residual.astype(np.int64) << layer.left.astype(np.int64).reshape(along)
    sums += layer.bias.astype(np.int64).reshape(along)
    assert np.abs(sums).max(initial=0) < 2**31, "sums fit into 32 bits"
    return np.clip(sums >> layer.right.astype(np.int64).reshape(along), layer.low, layer.high).astype(np.int8)
