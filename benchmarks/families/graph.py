"""The zoo's graph builder, with the layers of networks outside the zoo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.models.zoo.graph_builder import GraphBuilder


class Net(GraphBuilder):
    """Adds layers by the operators that today's exporters write.

    Parameters
    ----------
    tokens
        Words that the input chooses from: it is of whole numbers then. 0: it is of real ones.
    """

    def __init__(self, name: str, shape: tuple[int, ...], seed: int = 0, tokens: int = 0) -> None:
        super().__init__(name, shape, seed)
        self.tokens = tokens

    def op(
        self, operator: str, name: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any
    ) -> str:
        """Add a node of one output; `shape` is the output's, with the batch."""
        self._add(operator, name, list(inputs), tuple(shape[1:]), **attributes)
        self._shapes[name] = tuple(shape)
        return name

    def constant(self, name: str, values: Any, dtype: Any = np.float32) -> str:
        """Add a constant."""
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, name: str, *shape: int, fan_in: int = 0) -> str:
        """Add a weight, normal with the variance 1 / fan_in (0: its extent before the last)."""
        fan_in = fan_in or shape[-2]
        values = self._generator(name).standard_normal(shape, dtype=np.float32) / math.sqrt(fan_in)
        self._shapes[name] = shape
        return self._weight(name, values)

    def unary(self, operator: str, name: str, x: str, **attributes: Any) -> str:
        """Add an operator on each element."""
        return self.op(operator, name, [x], self.shape(x), **attributes)

    def binary(self, operator: str, name: str, x: str, y: str) -> str:
        """Add an operator on each element of two tensors; the first has the output's shape."""
        return self.op(operator, name, [x, y], self.shape(x))

    def silu(self, name: str, x: str) -> str:
        """Add x · sigmoid(x)."""
        return self.binary("Mul", name, x, self.unary("Sigmoid", f"{name}_sigmoid", x))

    def hard_swish(self, name: str, x: str) -> str:
        """Add x · clip(x / 6 + 1/2, 0, 1)."""
        return self.unary("HardSwish", name, x)

    def relu6(self, name: str, x: str) -> str:
        """Add min(max(x, 0), 6)."""
        ends = [self.constant(f"{name}_{end}", float(end)) for end in (0, 6)]
        return self.op("Clip", name, [x, *ends], self.shape(x))

    def gelu(self, name: str, x: str) -> str:
        """Add x · (1 + erf(x / √2)) / 2, as exporters write it."""
        root = self.constant(f"{name}_root", math.sqrt(2))
        erf = self.unary("Erf", f"{name}_erf", self.binary("Div", f"{name}_div", x, root))
        one = self.binary("Add", f"{name}_one", erf, self.constant(f"{name}_1", 1.0))
        both = self.binary("Mul", f"{name}_both", x, one)
        return self.binary("Mul", name, both, self.constant(f"{name}_half", 0.5))

    def activate(self, kind: str, name: str, x: str) -> str:
        """Add an activation by its name; an empty one adds none."""
        if not kind:
            return x
        own = {
            "silu": self.silu,
            "hard_swish": self.hard_swish,
            "gelu": self.gelu,
            "relu6": self.relu6,
        }
        return own[kind](name, x) if kind in own else self.unary(kind, name, x)

    def norm_conv(
        self, name: str, x: str, channels: int, kernel: int, stride: int = 1, act: str = "Relu", **more: Any
    ) -> str:
        """Add a convolution with its batch norm and activation, padded to keep the extents."""
        y = self.conv_bn(name, x, channels, kernel=kernel, stride=stride, padding=kernel // 2, **more)
        return self.activate(act, f"{name}_act", y)

    def batch_norm(self, name: str, x: str) -> str:
        """Add a batch norm that follows no convolution."""
        channels = self.channels(x)
        statistics = [
            self._normal(f"{name}.gamma", channels, 1.0, 0.05),
            self._normal(f"{name}.beta", channels, 0.0, 0.02),
            self._normal(f"{name}.mean", channels, 0.0, 0.02),
            self._uniform(f"{name}.var", channels, 0.8, 1.2),
        ]
        return self.op("BatchNormalization", name, [x, *statistics], self.shape(x))

    def squeeze_excite(self, name: str, x: str, hidden: int, act: str = "Relu", gate: str = "Sigmoid") -> str:
        """Scale the channels by a gate that their means decide."""
        pooled = self.global_average_pool(f"{name}_pool", x)
        inner = self.activate(
            act, f"{name}_act", self.conv(f"{name}_in", pooled, hidden, bias=True, kernel=1)
        )
        outer = self.conv(f"{name}_out", inner, self.channels(x), bias=True, kernel=1)
        attributes = {"alpha": 1 / 6} if gate == "HardSigmoid" else {}
        return self.binary("Mul", name, x, self.unary(gate, f"{name}_gate", outer, **attributes))

    def dilated(self, name: str, x: str, channels: int, kernel: int, rate: int, groups: int = 1) -> str:
        """Add a dilated convolution with bias over all spatial axes, padded to keep the extents."""
        spatial = self.shape(x)[2:]
        weight = self._he_normal(f"{name}.weight", (channels, self.channels(x) // groups, kernel, kernel))
        bias = self._normal(f"{name}.bias", channels, 0.0, 0.02)
        return self.op(
            "Conv",
            name,
            [x, weight, bias],
            (1, channels, *spatial),
            kernel_shape=[kernel] * 2,
            dilations=[rate] * 2,
            pads=[rate * (kernel // 2)] * 4,
            group=groups,
        )

    def up_conv(self, name: str, x: str, channels: int) -> str:
        """Add a transposed convolution that doubles height and width."""
        weight = self._he_normal(f"{name}.weight", (self.channels(x), channels, 2, 2))
        bias = self._normal(f"{name}.bias", channels, 0.0, 0.02)
        shape = (1, channels, *(2 * extent for extent in self.shape(x)[2:]))
        return self.op("ConvTranspose", name, [x, weight, bias], shape, kernel_shape=[2, 2], strides=[2, 2])

    def upsample(self, name: str, x: str, factor: int = 2, mode: str = "nearest") -> str:
        """Add a resize of height and width."""
        scales = self.constant(f"{name}.scales", [1, 1, factor, factor])
        shape = (*self.shape(x)[:2], *(factor * extent for extent in self.shape(x)[2:]))
        how = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
        how = how if mode == "nearest" else {"coordinate_transformation_mode": "half_pixel"}
        return self.op("Resize", name, [x, "", scales], shape, mode=mode, **how)

    def reshape(self, name: str, x: str, *shape: int) -> str:
        """Add a reshape."""
        return self.op("Reshape", name, [x, self.constant(f"{name}.shape", shape, np.int64)], shape)

    def transpose(self, name: str, x: str, *order: int) -> str:
        """Add a transpose."""
        shape = [self.shape(x)[axis] for axis in order]
        return self.op("Transpose", name, [x], shape, perm=list(order))

    def join(self, name: str, axis: int, *parts: str) -> str:
        """Add a concatenation along an axis."""
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.op("Concat", name, parts, shape, axis=axis)

    def cut(self, name: str, x: str, axis: int, begin: int, end: int) -> str:
        """Add a slice of one axis."""
        shape = list(self.shape(x))
        shape[axis] = end - begin
        bounds = [self.constant(f"{name}.{part}", [value], np.int64)
                  for part, value in (("begin", begin), ("end", end), ("axis", axis))]  # fmt: skip
        return self.op("Slice", name, [x, *bounds], shape)

    def matmul(self, name: str, x: str, y: str) -> str:
        """Add a product of matrices, batched over the leading axes."""
        return self.op("MatMul", name, [x, y], (*self.shape(x)[:-1], self.shape(y)[-1]))

    def linear(self, name: str, x: str, units: int) -> str:
        """Add a dense layer on the last axis, as exporters write it: MatMul and Add."""
        inner = self.shape(x)[-1]
        weight = self.weight(f"{name}.weight", inner, units)
        shape = (*self.shape(x)[:-1], units)
        y = self.op("MatMul", f"{name}_product", [x, weight], shape)
        return self.op("Add", name, [y, self._normal(f"{name}.bias", units, 0.0, 0.02)], shape)

    def layer_norm(self, name: str, x: str) -> str:
        """Add a layer norm over the last axis."""
        inner = self.shape(x)[-1]
        parameters = [
            self._normal(f"{name}.gamma", inner, 1.0, 0.05),
            self._normal(f"{name}.beta", inner, 0.0, 0.02),
        ]
        return self.op("LayerNormalization", name, [x, *parameters], self.shape(x), axis=-1)

    def group_norm(self, name: str, x: str, groups: int) -> str:
        """Add a group norm, as exporters write it below opset 18: an instance norm of a reshape."""
        _, channels, *spatial = self.shape(x)
        flat = self.reshape(f"{name}_groups", x, 1, groups, channels // groups * math.prod(spatial))
        ones = [
            self.constant(f"{name}.one", np.ones(groups)),
            self.constant(f"{name}.zero", np.zeros(groups)),
        ]
        normal = self.op("InstanceNormalization", f"{name}_normal", [flat, *ones], self.shape(flat))
        whole = self.reshape(f"{name}_whole", normal, 1, channels, *spatial)
        gamma = self._generator(f"{name}.gamma").normal(1.0, 0.05, (channels, *[1] * len(spatial)))
        scaled = self.binary("Mul", f"{name}_scaled", whole, self.constant(f"{name}.gamma", gamma))
        beta = self._generator(f"{name}.beta").normal(0.0, 0.02, (channels, *[1] * len(spatial)))
        return self.binary("Add", name, scaled, self.constant(f"{name}.beta", beta))

    def attention(self, name: str, x: str, heads: int) -> str:
        """Add self-attention over tokens [1, T, C], with its projections."""
        _, tokens, width = self.shape(x)
        part = width // heads
        scale = self.constant(f"{name}.scale", 1 / math.sqrt(part))
        split = {}
        for what, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
            flat = self.linear(f"{name}_{what}", x, width)
            apart = self.reshape(f"{name}_{what}_heads", flat, 1, tokens, heads, part)
            split[what] = self.transpose(f"{name}_{what}_turned", apart, *order)
        scores = self.matmul(f"{name}_scores", split["q"], split["k"])
        weights = self.unary(
            "Softmax", f"{name}_softmax", self.binary("Mul", f"{name}_scaled", scores, scale), axis=-1
        )
        mixed = self.transpose(
            f"{name}_mixed", self.matmul(f"{name}_values", weights, split["v"]), 0, 2, 1, 3
        )
        return self.linear(f"{name}_out", self.reshape(f"{name}_flat", mixed, 1, tokens, width), width)

    def recurrent(self, operator: str, name: str, x: str, hidden: int, gates: int, both: bool = False) -> str:
        """Add an LSTM or GRU over [T, 1, C]; its steps, [T, 1, hidden or twice that with both directions]."""
        steps, _, inner = self.shape(x)
        ways = 2 if both else 1
        weights = [
            self.weight(f"{name}.input", ways, gates * hidden, inner, fan_in=inner),
            self.weight(f"{name}.state", ways, gates * hidden, hidden, fan_in=hidden),
            self.weight(f"{name}.bias", ways, 2 * gates * hidden, fan_in=hidden),
        ]
        more: dict[str, Any] = {"linear_before_reset": 1} if operator == "GRU" else {}
        if both:
            more["direction"] = "bidirectional"
        steps_out = self.op(
            operator, name, [x, *weights], (steps, ways, 1, hidden), hidden_size=hidden, **more
        )
        turned = self.transpose(f"{name}_turned", steps_out, 0, 2, 1, 3)
        return self.reshape(f"{name}_steps", turned, steps, 1, ways * hidden)

    def model(self, output: str) -> onnx.ModelProto:
        """Return the model of what leads to one tensor, which becomes the output `output`."""
        shape = self.shape(output)
        self._graph.node.append(helper.make_node("Identity", [output], ["output"], name="output"))
        kind = TensorProto.INT64 if self.tokens else TensorProto.FLOAT
        self._graph.input.append(helper.make_tensor_value_info(self.data, kind, self.shape(self.data)))
        self._graph.output.append(helper.make_tensor_value_info("output", TensorProto.FLOAT, shape))
        return self._model
