"""Small networks of the kinds that become integers, as exporters write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.models.graphs import graph_of, tensor_info


class Net:
    """A graph that grows node by node; input `data`, weights from a seed."""

    def __init__(self, shape: tuple[int, ...] = (1, 3, 12, 12), seed: int = 0) -> None:
        self.shape = shape
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}
        self._random = np.random.default_rng(seed)

    def node(self, operator: str, inputs: str, output: str, **attributes: Any) -> str:
        """Add a node of these inputs, between spaces; return its output."""
        self.nodes.append(helper.make_node(operator, inputs.split(), [output], output, **attributes))
        return output

    def store(self, name: str, array: Any) -> str:
        """Store a tensor; return its name."""
        self.stored[name] = np.asarray(array)
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Store seeded weights; return their name."""
        scale = np.sqrt(2 / max(1, int(np.prod(shape[1:]))))
        return self.store(name, (self._random.standard_normal(shape) * scale).astype(np.float32))

    def conv(self, x: str, output: str, channels: tuple[int, int], kernel: int = 1, **attributes: Any) -> str:
        """Add a convolution of (inputs, outputs) channels with a bias."""
        w = self.weight(f"{output}.w", channels[1], channels[0] // attributes.get("group", 1), kernel, kernel)
        b = self.weight(f"{output}.b", channels[1])
        around = {"pads": [kernel // 2] * 4} | attributes
        return self.node("Conv", f"{x} {w} {b}", output, **around)

    def norm(self, x: str, output: str, channels: int) -> str:
        """Add a batch norm with running statistics."""
        names = [self.weight(f"{output}.{part}", channels) for part in ("gamma", "beta", "mean")]
        spread = self._random.uniform(0.5, 1.5, channels).astype(np.float32)
        return self.node(
            "BatchNormalization", " ".join([x, *names, self.store(f"{output}.var", spread)]), output
        )

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        """Return the model with inferred shapes."""
        ends = [tensor_info(name, None) for name in outputs]
        graph = graph_of(self.nodes, [tensor_info("data", self.shape)], ends, self.stored, opset)
        return onnx.shape_inference.infer_shapes(graph)


def mobile() -> onnx.ModelProto:
    """Return a network with what recent mobile networks are made of; output `logits` [1, 5]."""
    net = Net()
    net.store("zero", np.float32(0))
    net.store("six", np.float32(6))
    x = net.node(
        "HardSwish", net.norm(net.conv("data", "stem", (3, 8), 3, strides=[2, 2]), "stem.bn", 8), "hs"
    )
    y = net.node("Clip", f"{net.conv(x, 'expand', (8, 16))} zero six", "expand.act")
    y = net.node("Clip", f"{net.conv(y, 'deep', (16, 16), 3, group=16)} zero six", "deep.act")
    s = net.node("GlobalAveragePool", y, "se.pool")
    s = net.node("Relu", net.conv(s, "se.less", (16, 4)), "se.relu")
    s = net.node("HardSigmoid", net.conv(s, "se.more", (4, 16)), "se.gate")
    y = net.conv(net.node("Mul", f"{y} {s}", "se"), "project", (16, 8))
    x = net.node("Add", f"{y} {x}", "residual")
    s = net.node("Sigmoid", (y := net.conv(x, "wide", (8, 8), 3)), "silu.gate")
    y = net.node("Mul", f"{y} {s}", "silu")
    x = net.node("Concat", f"{x} {y}", "both", axis=1)
    x = net.node("Relu", net.norm(x, "both.bn", 16), "both.act")
    x = net.node("MaxPool", x, "halved", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = net.node("LeakyRelu", net.conv(x, "last", (16, 12)), "last.act", alpha=0.1)
    x = net.node("ReduceMean", x, "mean", axes=[2, 3], keepdims=0)
    x = net.node("MatMul", f"{x} {net.weight('fc.w', 12, 5)}", "fc")
    net.node("Add", f"{x} {net.weight('fc.b', 5)}", "logits")
    return net.model("logits")
