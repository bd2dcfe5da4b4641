"""Builds the ONNX graph of a zoo network, weights included."""

from __future__ import annotations

import hashlib
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
RELU_VARIANCE = 0.5 - 0.5 / np.pi
"""Variance of max(x, 0) for a standard normal x: E[y^2] - E[y]^2 = 1/2 - 1/(2 pi)."""


class Window(TypedDict, total=False):
    """Geometry of a square convolution, in elements; `kernel` is always needed."""

    kernel: int
    stride: int
    padding: int
    groups: int


class GraphBuilder:
    """Adds layers to a graph; every tensor is named after the layer that makes it.

    Weights are He-normal, drawn from a generator seeded by `seed` and the tensor's own name, so that
    one layer's weights don't depend on the others. Each dense filter sums to zero: activations behind
    a ReLU share a positive mean, which would otherwise grow from layer to layer until the output no
    longer depended on the input.

    Parameters
    ----------
    name
        Name of the graph.
    shape
        Shape of the input `data`, NCHW.
    seed
        Seed of all weights.
    """

    data = "data"

    def __init__(self, name: str, shape: tuple[int, ...], seed: int) -> None:
        self._name = name
        self._shape = shape
        self._seed = seed
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._channels = {self.data: shape[1]}

    def channels(self, x: str) -> int:
        """Return the extent of dimension 1 of tensor `x`."""
        return self._channels[x]

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        *,
        bias: bool = False,
        **window: Unpack[Window],
    ) -> str:
        """Add a square 2-D convolution."""
        kernel, groups = window["kernel"], window.get("groups", 1)
        weight = self._he_normal(f"{name}.weight", (channels, self.channels(x) // groups, kernel, kernel))
        inputs = [x, weight] + ([self._normal(f"{name}.bias", channels, 0.0, 0.02)] if bias else [])
        return self._add(
            "Conv",
            name,
            inputs,
            channels,
            kernel_shape=[kernel] * 2,
            strides=[window.get("stride", 1)] * 2,
            pads=[window.get("padding", 0)] * 4,
            group=groups,
        )

    def conv_bn(
        self, name: str, x: str, channels: int, *, gamma: float = 1.0, **window: Unpack[Window]
    ) -> str:
        """Add a convolution without bias and its batch norm, scaled around `gamma`."""
        y = self.conv(name, x, channels, **window)
        statistics = [
            self._normal(f"{name}_bn.gamma", channels, gamma, 0.05 * gamma),
            self._normal(f"{name}_bn.beta", channels, 0.0, 0.02),
            self._normal(f"{name}_bn.mean", channels, 0.0, 0.02),
            self._uniform(f"{name}_bn.var", channels, 0.8, 1.2),
        ]
        return self._add("BatchNormalization", f"{name}_bn", [y, *statistics], channels, epsilon=1e-5)

    def conv_bn_relu(self, name: str, x: str, channels: int, **window: Unpack[Window]) -> str:
        """Add a convolution, its batch norm and a ReLU."""
        return self.relu(f"{name}_relu", self.conv_bn(name, x, channels, **window))

    def relu(self, name: str, x: str) -> str:
        """Add a ReLU."""
        return self._add("Relu", name, [x], self.channels(x))

    def add(self, name: str, x: str, y: str) -> str:
        """Add the sum of two tensors of one shape."""
        return self._add("Add", name, [x, y], self.channels(x))

    def concat(self, name: str, x: str, y: str) -> str:
        """Add the concatenation of the channels of two tensors."""
        return self._add("Concat", name, [x, y], self.channels(x) + self.channels(y), axis=1)

    def max_pool(self, name: str, x: str, *, kernel: int, stride: int, padding: int = 0) -> str:
        """Add a square 2-D max pooling."""
        square = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self._add("MaxPool", name, [x], self.channels(x), **square)

    def global_average_pool(self, name: str, x: str) -> str:
        """Add the mean over height and width."""
        return self._add("GlobalAveragePool", name, [x], self.channels(x))

    def flatten(self, name: str, x: str) -> str:
        """Add the reshape from [N, C, 1, 1] to [N, C]."""
        return self._add("Flatten", name, [x], self.channels(x), axis=1)

    def dense(self, name: str, x: str, units: int) -> str:
        """Add a fully connected layer with bias."""
        weight = self._he_normal(f"{name}.weight", (units, self.channels(x)))
        return self._add(
            "Gemm", name, [x, weight, self._normal(f"{name}.bias", units, 0.0, 0.02)], units, transB=1
        )

    def finish(self, logits: str) -> onnx.ModelProto:
        """Add the softmax named `output` and return the model."""
        self._add("Softmax", "output", [logits], self.channels(logits), axis=1)
        output_shape = (self._shape[0], self.channels(logits))
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(self.data, TensorProto.FLOAT, self._shape)],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, output_shape)],
            self._weights,
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)

    def _add(self, operator: str, name: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        self._channels[name] = channels
        return name

    def _generator(self, name: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))

    def _weight(self, name: str, values: np.ndarray) -> str:
        self._weights.append(numpy_helper.from_array(values.astype(np.float32, copy=False), name))
        return name

    def _he_normal(self, name: str, shape: tuple[int, ...]) -> str:
        values = self._generator(name).standard_normal(shape, dtype=np.float32)
        values -= values.mean(axis=tuple(range(1, len(shape))), keepdims=True)
        values *= np.float32(np.sqrt(1 / (RELU_VARIANCE * np.prod(shape[1:]))))
        return self._weight(name, values)

    def _normal(self, name: str, size: int, mean: float, deviation: float) -> str:
        return self._weight(name, self._generator(name).normal(mean, deviation, size))

    def _uniform(self, name: str, size: int, low: float, high: float) -> str:
        return self._weight(name, self._generator(name).uniform(low, high, size))
