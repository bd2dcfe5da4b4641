"""Replaces float operators between DequantizeLinear and QuantizeLinear by the integer operators they mean.

A file in QDQ form says "convolve these floats, then round them"; but its author means, and onnxruntime
computes, a convolution of integers that is rounded once. Two programs agree exactly on the integers. With
floats they round one value in ten thousand differently, and later layers amplify the difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array
from toolchain.models.folding.fold import fold
from toolchain.models.folding.folded import Folded
from toolchain.models.onnx_graph import Names, all_nodes, attributes_of, opset_of
from toolchain.models.rewrites.quantised.integer_operators import (
    CONVOLUTION_WITH_FLOATS,
    GEMM_WITH_FLOATS,
    MICROSOFT,
)
from toolchain.models.rewrites.quantised.values import REAL, ROUND, with_unsigned_activations

MOVING = frozenset({"Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
NARROW = frozenset({"int8", "uint8"})
_BYTES_SINCE = 12  # operator set since which MaxPool takes bytes
BIAS_SCALE = 1e-5
"""Largest relative error of a bias's scale, which float32 rounds, from the product of the other scales."""


def fold_in_groups(model: onnx.ModelProto, origin: str, frozen: Mapping[str, Array]) -> Folded:
    """Return a folded graph with the groups of a QDQ file replaced by integer operators.

    Parameters and errors are those of `fold`.
    """
    if not any(node.op_type == REAL for node in all_nodes(model.graph)):
        return fold(model, origin, frozen)
    unsigned = with_unsigned_activations(model)
    kept = fold(unsigned, origin, frozen, kept=frozenset({REAL}))  # else weights are floats by then
    return fold(with_groups(kept.model), origin)


def with_groups(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a folded graph with each group replaced by one operator; its former inputs may become unused."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = _Graph.of(copy)
    nodes: list[onnx.NodeProto] = []
    for node in copy.graph.node:
        replacement = graph.group(node)
        nodes += graph.moved if replacement is not None else []
        nodes.append(replacement or node)
        graph.moved.clear()
    if not graph.groups:
        return model
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    copy.graph.initializer.extend(graph.added)
    if not any(opset.domain == MICROSOFT[:-1] for opset in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid(MICROSOFT[:-1], 1))
    return copy


@dataclass
class _Graph:
    values: dict[str, Array]
    types: dict[str, onnx.TypeProto]
    makers: dict[str, onnx.NodeProto]
    readers: dict[str, int]
    opset: int
    groups: int = 0
    added: list[onnx.TensorProto] = field(default_factory=list)
    moved: list[onnx.NodeProto] = field(default_factory=list)
    """New nodes that move a group's integers (Transpose, Reshape, …) where the file moves its floats."""
    _names: Names = field(init=False)

    def __post_init__(self) -> None:
        self._names = Names([*self.values, *self.makers, *self.types])

    @classmethod
    def of(cls, model: onnx.ModelProto) -> _Graph:
        graph = model.graph
        readers: dict[str, int] = {}
        for name in (*(n for node in graph.node for n in node.input), *(o.name for o in graph.output)):
            readers[name] = readers.get(name, 0) + 1
        small = {tensor.name: tensor for tensor in graph.initializer}
        return cls(
            {name: numpy_helper.to_array(tensor) for name, tensor in small.items()},
            {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)},
            {name: node for node in graph.node for name in node.output},
            readers,
            opset_of(model),
        )

    def group(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """Return the integer operator for the group that ends with a node; None if no group ends there."""
        parameters = self._parameters(node, one=True) if node.op_type == ROUND else None
        if parameters is None or parameters[1].dtype.kind not in "iu":  # int4 and float8 stay as they are
            return None
        inner = self._behind_limits(node)
        make = _GROUPS.get(inner.op_type) if inner is not None and inner.domain in ("", "ai.onnx") else None
        if inner is None or make is None or self.readers[inner.output[0]] != 1:
            return None
        replacement = make(self, inner, node)
        if replacement is not None:
            self.groups += 1
            replacement.name = inner.name or inner.output[0]
        return replacement

    def _behind_limits(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """Return the node that computes a rounded value, skipping a Relu or Clip that rounding implies."""
        inner = self.makers.get(node.input[0])
        while inner is not None and inner.op_type in ("Relu", "Clip") and self.readers[inner.output[0]] == 1:
            bounds = self._bounds(inner)
            parameters = self._parameters(node, one=True)
            if bounds is None or parameters is None:
                break
            scale, zero = (parameter.astype(np.float32).reshape(()) for parameter in parameters)
            ends = np.iinfo(parameters[1].dtype)
            low, high = (np.rint(np.float32(bound) / scale) + zero for bound in bounds)
            if low > ends.min or high < ends.max:
                break
            inner = self.makers.get(inner.input[0])
        return inner

    def _bounds(self, node: onnx.NodeProto) -> tuple[float, float] | None:
        if node.op_type == "Relu":
            return 0.0, math.inf
        attributes = attributes_of(node)
        given = [self.values.get(name) if name else None for name in [*node.input[1:], "", ""][:2]]
        if any(name and value is None for name, value in zip(node.input[1:], given, strict=False)):
            return None
        low, high = (
            float(value.reshape(())) if value is not None else attributes.get(name, end)
            for value, name, end in zip(given, ("min", "max"), (-math.inf, math.inf), strict=True)
        )
        return low, high

    def _parameters(self, node: onnx.NodeProto, *, one: bool) -> tuple[Array, Array] | None:
        """Return the constant scale and zero point of a node that rounds to 8 bits, or back.

        Parameters
        ----------
        one
            Whether it must be one for the whole tensor.
        """
        scale = self.values.get(node.input[1])
        zero = self.values.get(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if zero is None:
            if (len(node.input) > 2 and node.input[2]) or attributes_of(node).get("output_dtype"):
                return None
            kind = np.uint8 if node.op_type == ROUND else self._dtype(node.input[0])
            zero = np.zeros((), kind)
        if scale is None or scale.dtype != np.float32 or attributes_of(node).get("block_size"):
            return None
        return None if one and (scale.size != 1 or zero.size != 1) else (scale, zero)

    def _dtype(self, name: str) -> np.dtype[Any]:
        if name in self.values:
            return np.dtype(self.values[name].dtype)
        code = self.types[name].tensor_type.elem_type if name in self.types else 0
        return np.dtype(helper.tensor_dtype_to_np_dtype(code) if code else "float32")

    def integers(self, name: str, axis: int | None = None) -> list[str] | None:
        """Return the names of the 8-bit integers, scale and zero point from which floats are dequantised.

        Parameters
        ----------
        axis
            Axis along which scales may differ; None: one scale for the whole tensor.
        """
        node = self.makers.get(name)
        if node is not None and node.op_type in MOVING and axis is None:
            return self._moved(node)
        if node is None or node.op_type != REAL:
            return None
        parameters = self._parameters(node, one=axis is None)
        if parameters is None or parameters[1].dtype.name not in NARROW:
            return None
        scale, zero = parameters
        if axis is not None and scale.size > 1:
            rank = self._rank(node.input[0])
            channel_axis = attributes_of(node).get("axis", 1)
            if rank is None or channel_axis % rank != axis % rank or scale.ndim != 1:
                return None
        return [node.input[0], node.input[1], *self._zero(node, zero)]

    def _moved(self, node: onnx.NodeProto) -> list[str] | None:
        integers = self.integers(node.input[0])
        if integers is None:
            return None
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[0], copy.output[0] = integers[0], self._names.free(f"{node.output[0]}.integers")
        self.moved.append(copy)
        return [copy.output[0], *integers[1:]]

    def _zero(self, node: onnx.NodeProto, zero: Array) -> list[str]:
        if len(node.input) > 2 and node.input[2]:
            return [node.input[2]]
        return [self.constant(zero, f"{node.output[0]}.zero")]

    def _rank(self, name: str) -> int | None:
        if name in self.values:
            return self.values[name].ndim
        if name in self.types and self.types[name].tensor_type.HasField("shape"):
            return len(self.types[name].tensor_type.shape.dim)
        return None

    def out(self, node: onnx.NodeProto) -> list[str]:
        """Return the names of the scale and the zero point of a QuantizeLinear."""
        _scale, zero = self._parameters(node, one=True) or (None, np.zeros((), np.uint8))
        return [node.input[1], *self._zero(node, zero)]

    def bias(self, name: str, one: str, other: str) -> str | None:
        """Return the name of a bias in steps of the sums; None if it is not a multiple of a step."""
        node = self.makers.get(name)
        if node is None or node.op_type != REAL or node.input[0] not in self.values:
            return None
        steps, scale = self.values[node.input[0]], self.values.get(node.input[1])
        if math.prod(steps.shape[:-1]) != 1:  # a bias of rows
            return None
        zero = self.values.get(node.input[2]) if len(node.input) > 2 and node.input[2] else np.int32(0)
        if steps.dtype != np.int32 or scale is None or zero is None or np.any(zero):
            return None
        expected = np.ravel(self.values[one]) * np.ravel(self.values[other])
        fits = np.allclose(np.ravel(scale), expected, rtol=BIAS_SCALE, atol=0)
        return str(node.input[0]) if fits else None

    def float_bias(self, name: str, one: str, other: str) -> str | None:
        """Return the name of a constant bias in floats, in steps of the sums; None for another bias."""
        bias = self.values.get(name)
        if bias is None or bias.dtype != np.float32 or math.prod(bias.shape[:-1]) != 1:
            return None
        steps = np.ravel(self.values[one]) * np.ravel(self.values[other])
        with np.errstate(all="ignore"):
            in_steps = np.asarray(np.ravel(bias) / steps, np.float32)
        if in_steps.size != bias.size or not np.all(np.isfinite(in_steps)):
            return None
        return self.constant(in_steps.reshape(bias.shape), f"{name}.steps")

    def constant(self, array: Array, like: str) -> str:
        """Store an array under a name made from `like`."""
        name = self._names.free(like)
        self.values[name] = array
        self.added.append(numpy_helper.from_array(np.asarray(array), name))
        return name


def _convolution(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    x, w = graph.integers(node.input[0]), graph.integers(node.input[1], axis=0)
    if x is None or w is None or w[0] not in graph.values:
        return None
    inputs = [*x, *w, *graph.out(end)]
    kind, domain = "QLinearConv", ""
    if len(node.input) > 2 and node.input[2]:
        bias = graph.bias(node.input[2], x[1], w[1])
        if bias is None:
            bias = graph.float_bias(node.input[2], x[1], w[1])
            kind, domain = CONVOLUTION_WITH_FLOATS, MICROSOFT[:-1]
        if bias is None:
            return None
        inputs.append(bias)
    return helper.make_node(kind, inputs, list(end.output), domain=domain, **attributes_of(node))


def _product(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    a, b = graph.integers(node.input[0]), graph.integers(node.input[1], axis=-1)
    if a is None or b is None:
        return None
    return helper.make_node("QLinearMatMul", [*a, *b, *graph.out(end)], list(end.output))


def _gemm(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    attributes = attributes_of(node)
    columns = 0 if attributes.get("transB", 0) else 1
    a, b = graph.integers(node.input[0]), graph.integers(node.input[1], axis=columns)
    if a is None or b is None:
        return None
    bias, kind = "", "QGemm"
    if len(node.input) > 2 and node.input[2]:
        bias = graph.bias(node.input[2], a[1], b[1]) or ""
        if not bias:
            bias, kind = graph.float_bias(node.input[2], a[1], b[1]) or "", GEMM_WITH_FLOATS
        if not bias or attributes.get("beta", 1.0) != 1.0 or attributes.get("alpha", 1.0) != 1.0:
            return None
    attributes.pop("beta", None)
    inputs = [*a, *b, bias, *graph.out(end)]
    return helper.make_node(kind, inputs, list(end.output), domain=MICROSOFT[:-1], **attributes)


def _pair(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    a, b = graph.integers(node.input[0]), graph.integers(node.input[1])
    if a is None or b is None:
        return None
    inputs = [*a, *b, *graph.out(end)]
    return helper.make_node(f"QLinear{node.op_type}", inputs, list(end.output), domain=MICROSOFT[:-1])


def _pool(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    x = graph.integers(node.input[0])
    if x is None:
        return None
    inputs = [*x, *graph.out(end)]
    attributes = attributes_of(node)
    return helper.make_node(
        f"QLinear{node.op_type}", inputs, list(end.output), domain=MICROSOFT[:-1], **attributes
    )


def _moving(graph: _Graph, node: onnx.NodeProto, end: onnx.NodeProto) -> onnx.NodeProto | None:
    """Return an operator that picks some of its numbers on their integers, if they are rounded as before."""
    x = graph.integers(node.input[0])
    if x is None or len(node.output) > 1:
        return None
    if node.op_type == "MaxPool" and graph.opset < _BYTES_SINCE:
        return None
    before, after = ([graph.values.get(name) for name in names] for names in (x[1:], graph.out(end)))
    same = all(
        one is not None and other is not None and one.dtype == other.dtype and np.array_equal(one, other)
        for one, other in zip(before, after, strict=True)
    )
    if not same:
        return None
    moving = onnx.NodeProto()
    moving.CopyFrom(node)
    moving.input[0], moving.output[0] = x[0], end.output[0]
    return moving


_GROUPS = {
    **dict.fromkeys((*MOVING, "MaxPool"), _moving),
    "Add": _pair,
    "AveragePool": _pool,
    "Conv": _convolution,
    "Gemm": _gemm,
    "GlobalAveragePool": _pool,
    "MatMul": _product,
    "Mul": _pair,
}
GROUPED = frozenset(_GROUPS)
"""Operators with an integer form. Groups of other operators are computed in floats, as onnxruntime does."""
