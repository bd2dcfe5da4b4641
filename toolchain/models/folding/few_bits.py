"""Computes what files make of stored tensors in types of few bits: int4, 8-bit floats and their like.

No code of a board computes in such types. As weights they are only a way to store numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.arrays import Array
from toolchain.models.folding.constants import Constant
from toolchain.models.walk import attributes_of

FEW_BITS = frozenset(
    code
    for name, code in TensorProto.DataType.items()
    if name.startswith(("INT2", "INT4", "UINT2", "UINT4", "FLOAT4", "FLOAT8"))
)


def is_of_few_bits(constant: Constant | None) -> bool:
    """Whether a known tensor is of such a type."""
    return constant is not None and constant.type.tensor_type.elem_type in FEW_BITS


def widened(node: onnx.NodeProto, inputs: Sequence[Constant | None]) -> list[Array | None] | None:
    """Return the result of a node that makes plain numbers of a tensor of few bits; None if it does not."""
    if not inputs or not is_of_few_bits(inputs[0]) or node.domain not in ("", "ai.onnx"):
        return None
    own = attributes_of(node)
    stored = inputs[0].array  # type: ignore[union-attr]  # it is one, as was just asked
    if node.op_type == "Cast" and own["to"] not in FEW_BITS:
        return [stored.astype(helper.tensor_dtype_to_np_dtype(own["to"]))]
    if node.op_type != "DequantizeLinear" or len(inputs) < 2 or inputs[1] is None:
        return None
    scale = inputs[1].array
    if scale.dtype not in (np.float32, np.float16):
        return None
    zero = inputs[2].array if len(inputs) > 2 and inputs[2] is not None else np.zeros((), np.float32)
    axis, block = own.get("axis", 1), own.get("block_size", 0)
    factors, middles = (_spread(each.astype(np.float32), stored.shape, axis, block) for each in (scale, zero))
    return [((stored.astype(np.float32) - middles) * factors).astype(scale.dtype)]


def _spread(values: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Return scales or zero points in a shape that broadcasts to `shape`."""
    if values.size == 1:
        return values.reshape(())
    if block:
        repeated = np.repeat(values, block, axis)
        return np.take(repeated, np.arange(shape[axis]), axis)
    return values.reshape([-1 if place == axis % len(shape) else 1 for place in range(len(shape))])
