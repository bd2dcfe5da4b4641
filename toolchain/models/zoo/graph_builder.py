"""Builds the ONNX graph of a zoo network, weights included."""

from __future__ import annotations

import hashlib
import math
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.errors import UsageError

OPSET = 17
IR_VERSION = 8
RELU_VARIANCE = 0.5 - 0.5 / np.pi
"""Variance of max(x, 0) for a standard normal x: E[y^2] - E[y]^2 = 1/2 - 1/(2 pi)."""

Extent = int | tuple[int, ...]
"""Elements along each spatial axis; one number stands for all of them."""


class Window(TypedDict, total=False):
    """Geometry of a convolution or a pooling in elements; `kernel` is required."""

    kernel: Extent
    stride: Extent
    padding: Extent


class GraphBuilder:
    """Adds layers to a graph; every tensor is named after the layer that makes it.

    The input's rank decides how many axes convolutions and poolings have: NCHW two, NCTHW three.

    Weights are He-normal, drawn from a generator seeded by `seed` and the tensor's own name, so that
    one layer's weights don't depend on the others. Each dense filter sums to zero: activations behind
    a ReLU share a positive mean, which would otherwise grow from layer to layer until the output no
    longer depended on the input.

    Parameters
    ----------
    name
        Name of the graph.
    shape
        Shape of the input `data`: batch, channels and the spatial axes.
    seed
        Seed of all weights.
    """

    data = "data"

    def __init__(self, name: str, shape: tuple[int, ...], seed: int) -> None:
        # Everything is made in its place: protobuf copies what is put together from parts.
        self._model = onnx.ModelProto(ir_version=IR_VERSION, opset_import=[helper.make_opsetid("", OPSET)])
        self._graph = self._model.graph
        self._graph.name = name
        self._seed = seed
        self._shapes = {self.data: shape}

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of tensor `x`."""
        return self._shapes[x]

    def channels(self, x: str) -> int:
        """Return the extent of dimension 1 of tensor `x`."""
        return self._shapes[x][1]

    def conv(
        self,
        name: str,
        x: str,
        channels: int,
        *,
        bias: bool = False,
        groups: int = 1,
        **window: Unpack[Window],
    ) -> str:
        """Add a convolution."""
        geometry, extents = self._slide(x, **window)
        shape = (channels, self.channels(x) // groups, *geometry["kernel_shape"])
        inputs = [x, self._he_normal(f"{name}.weight", shape)]
        if bias:
            inputs.append(self._normal(f"{name}.bias", channels, 0.0, 0.02))
        return self._add("Conv", name, inputs, (channels, *extents), **geometry, group=groups)

    def conv_bn(
        self,
        name: str,
        x: str,
        channels: int,
        *,
        gamma: float = 1.0,
        epsilon: float = 1e-5,
        groups: int = 1,
        **window: Unpack[Window],
    ) -> str:
        """Add a convolution without bias and its batch norm, scaled around `gamma`."""
        y = self.conv(name, x, channels, groups=groups, **window)
        statistics = [
            self._normal(f"{name}_bn.gamma", channels, gamma, 0.05 * gamma),
            self._normal(f"{name}_bn.beta", channels, 0.0, 0.02),
            self._normal(f"{name}_bn.mean", channels, 0.0, 0.02),
            self._uniform(f"{name}_bn.var", channels, 0.8, 1.2),
        ]
        shape = self.shape(y)[1:]
        return self._add("BatchNormalization", f"{name}_bn", [y, *statistics], shape, epsilon=epsilon)

    def conv_bn_relu(
        self,
        name: str,
        x: str,
        channels: int,
        *,
        epsilon: float = 1e-5,
        groups: int = 1,
        **window: Unpack[Window],
    ) -> str:
        """Add a convolution, its batch norm and a ReLU."""
        y = self.conv_bn(name, x, channels, epsilon=epsilon, groups=groups, **window)
        return self.relu(f"{name}_relu", y)

    def relu(self, name: str, x: str) -> str:
        """Add a ReLU."""
        return self._add("Relu", name, [x], self.shape(x)[1:])

    def add(self, name: str, x: str, y: str) -> str:
        """Add the sum of two tensors of one shape."""
        return self._add("Add", name, [x, y], self.shape(x)[1:])

    def concat(self, name: str, *parts: str) -> str:
        """Add the concatenation of the channels of tensors that agree in all else."""
        channels = sum(self.channels(part) for part in parts)
        return self._add("Concat", name, list(parts), (channels, *self.shape(parts[0])[2:]), axis=1)

    def max_pool(self, name: str, x: str, **window: Unpack[Window]) -> str:
        """Add a max pooling."""
        geometry, extents = self._slide(x, **window)
        return self._add("MaxPool", name, [x], (self.channels(x), *extents), **geometry)

    def average_pool(self, name: str, x: str, **window: Unpack[Window]) -> str:
        """Add an average pooling; padding counts as zeros."""
        geometry, extents = self._slide(x, **window)
        shape = (self.channels(x), *extents)
        return self._add("AveragePool", name, [x], shape, **geometry, count_include_pad=1)

    def global_average_pool(self, name: str, x: str) -> str:
        """Add the mean over all spatial axes."""
        _, channels, *spatial = self.shape(x)
        return self._add("GlobalAveragePool", name, [x], (channels, *[1] * len(spatial)))

    def flatten(self, name: str, x: str) -> str:
        """Add the reshape to [N, everything else]."""
        return self._add("Flatten", name, [x], (math.prod(self.shape(x)[1:]),), axis=1)

    def dense(self, name: str, x: str, units: int) -> str:
        """Add a fully connected layer with bias."""
        weight = self._he_normal(f"{name}.weight", (units, self.channels(x)))
        bias = self._normal(f"{name}.bias", units, 0.0, 0.02)
        return self._add("Gemm", name, [x, weight, bias], (units,), transB=1)

    def finish(self, logits: str) -> onnx.ModelProto:
        """Add the softmax named `output` and return the model."""
        output = self._add("Softmax", "output", [logits], self.shape(logits)[1:], axis=1)
        for values, name in ((self._graph.input, self.data), (self._graph.output, output)):
            values.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shape(name)))
        return self._model

    def _slide(
        self, x: str, *, kernel: Extent, stride: Extent = 1, padding: Extent = 0
    ) -> tuple[dict[str, list[int]], list[int]]:
        """Return a window's ONNX attributes, and the spatial extents it leaves of `x`."""
        sizes = self.shape(x)[2:]
        kernels, strides, pads = (
            [extent] * len(sizes) if isinstance(extent, int) else list(extent)
            for extent in (kernel, stride, padding)
        )
        extents = [
            (size + 2 * pad - k) // step + 1
            for size, k, step, pad in zip(sizes, kernels, strides, pads, strict=True)
        ]
        return {"kernel_shape": kernels, "strides": strides, "pads": pads * 2}, extents

    def _add(
        self, operator: str, name: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any
    ) -> str:
        """Add a node; `shape` is that of its output without the batch."""
        if min(shape) < 1:
            raise UsageError(
                f"zoo:{self._graph.name}: the shapes don't fit together: nothing is left of {name!r}",
                f"leave --shape {self.data}=… out, or give it a larger one",
            )
        self._graph.node.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        self._shapes[name] = (self._shapes[self.data][0], *shape)
        return name

    def _generator(self, name: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))

    def _weight(self, name: str, values: np.ndarray) -> str:
        tensor = self._graph.initializer.add(name=name, dims=values.shape, data_type=TensorProto.FLOAT)
        tensor.raw_data = values.astype("<f4", copy=False).tobytes()
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
