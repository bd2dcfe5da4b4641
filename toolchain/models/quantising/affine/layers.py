"""Convolutions and dense layers with integer weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.scales import Scale, integer_weights
from toolchain.models.walk import attributes_of


@dataclass(frozen=True)
class IntegerLayer:
    """A convolution or a dense layer in integers.

    Attributes
    ----------
    weight
        int8, in the node's own shape.
    steps
        float32 [out]: scale of the weights of each output channel.
    bias
        int32 [out]; None without one.
    sums
        float32 [out]: scale of the sums and the bias.
    axis
        Axis of the output channels in `weight`.
    attributes
        Of the node.
    """

    weight: Array
    steps: Array
    bias: Array | None
    sums: Array
    axis: int
    attributes: dict[str, Any]


def layer_of(index: Index, node: onnx.NodeProto, source: Scale) -> IntegerLayer:
    """Return the integer form of a node that `refusal` lets through.

    Parameters
    ----------
    source
        Scale of the node's input.
    """
    own = attributes_of(node)
    weight = index.array(node.input[1])
    axis = {"Conv": 0, "MatMul": 1}.get(node.op_type, 0 if own.get("transB", 0) else 1)
    has_bias = len(node.input) > 2 and bool(node.input[2])
    bias: Array = np.zeros(weight.shape[axis], np.float32)
    if has_bias:
        bias = bias + np.float32(own.get("beta", 1.0)) * index.array(node.input[2]).reshape(-1)
    made = integer_weights(np.float32(own.get("alpha", 1.0)) * weight, bias, axis, source)
    attributes = {name: value for name, value in own.items() if name not in ("alpha", "beta")}
    sums = (np.float32(source.step) * made.steps).astype(np.float32)
    return IntegerLayer(made.weight, made.steps, made.bias if has_bias else None, sums, axis, attributes)
