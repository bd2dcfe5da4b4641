"""Operators in float64 and in exact integers: what onnxruntime's answers are measured by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from toolchain.arrays import Array
from toolchain.models.onnx_graph import all_graphs, all_nodes, all_tensors

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_TYPES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


def in_double(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Compute a model by onnx's own evaluator in float64, for the same float32 inputs and weights."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in all_tensors(copy.graph):
        if tensor.data_type in FLOATS:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("f8"), tensor.name))
    for graph in all_graphs(copy.graph):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type in FLOATS:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in all_nodes(copy.graph):
        for attribute in node.attribute:
            if attribute.name in _TYPES and attribute.i in FLOATS:
                attribute.i = TensorProto.DOUBLE
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name in ("value_float", "value_floats"):
                    value = np.asarray(helper.get_attribute_value(attribute), np.float64)
                    attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(value)))
    fed = {name: array.astype("f8") if array.dtype.kind == "f" else array for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        results: list[Array] = ReferenceEvaluator(copy).run(None, fed)
    return [np.asarray(each) for each in results]


def rounded(real: Array, scale: float, zero: int, kind: str) -> Array:
    """Return the integers of real numbers: to the nearest, halves to even, within the type."""
    ends = np.iinfo(kind)
    return np.clip(np.rint(real / np.float64(np.float32(scale))) + zero, ends.min, ends.max).astype(kind)


def real(steps: Array, scale: float, zero: int) -> Array:
    """Return the numbers in float64 that integers stand for."""
    return (steps.astype(np.float64) - zero) * np.float64(np.float32(scale))


def softmax(x: Array, axis: int = -1) -> Array:
    """Return the softmax in float64."""
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def far(found: Sequence[Array], due: Sequence[Array]) -> float:
    """Return the largest error relative to an output's largest value; of integers the share that differs."""
    worst = 0.0
    for got, exact in zip(found, due, strict=True):
        if got.dtype.kind != "f":
            worst = max(worst, float((got != exact).mean()) if exact.size else 0.0)
            continue
        places = np.isfinite(exact) & (np.abs(exact) < np.finfo(got.dtype).max / 2)
        largest = np.abs(exact[places]).max(initial=0.0)
        if not largest or largest < np.finfo(got.dtype).tiny:
            continue
        off = np.abs(got.astype(np.float64)[places] - exact[places]).max(initial=0.0) / largest
        worst = max(worst, float("inf") if np.isnan(off) else float(off))
    return worst
