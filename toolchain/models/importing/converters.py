"""Converters to Relax that replace TVM's own; they do what a rewrite in ONNX cannot."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.models.importing.arithmetic import ARITHMETIC
from toolchain.models.importing.checks import CHECKS
from toolchain.models.importing.integers import INTEGERS
from toolchain.models.importing.places import PLACES
from toolchain.models.recurrent.convert import CELLS
from toolchain.models.recurrent.dynamic import ConvertDynamic
from toolchain.tvm_compat import Converter


def _pairwise(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Return a converter that combines two operands at a time, to be fused; TVM stacks all and reduces."""
    return lambda inputs, _attributes: reduce(operator, inputs)


def _mean(inputs: list[relax.Expr], _attributes: dict[str, Any]) -> relax.Expr:
    count = relax.const(len(inputs), inputs[0].ty.dtype)
    return relax.op.divide(reduce(relax.op.add, inputs), count)


def _picked(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert `Gather`; constants may count from the end, computed indices were resolved by their check."""
    data, indices = inputs
    axis = attributes.get("axis", 0) % len(data.ty.shape)
    if isinstance(indices, GenericConst):
        dtype, extent, stored = str(indices.ty.dtype), int(data.ty.shape[axis]), indices.value.numpy()
        indices = relax.const(np.where(stored < 0, stored + extent, stored).astype(dtype), dtype)
    return relax.op.take(data, indices, axis, mode="clip")


def _largest(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    """Convert `TopK`; of operator set 10 TVM's own reads an attribute, where the number is an input."""
    number = inputs[1] if len(inputs) > 1 else relax.const(attributes.get("k", 1), "int64")
    if not isinstance(number, GenericConst):
        raise ValueError("TopK k must be a constant")
    if not attributes.get("sorted", 1):
        raise ValueError("TopK sorted must be 1")
    count, axis = int(number.value.numpy().item()), attributes.get("axis", -1)
    largest = bool(attributes.get("largest", 1))
    return relax.op.topk(inputs[0], count, axis, ret_type="both", largest=largest, dtype="int64")


CONVERTERS: dict[str, Converter] = {
    **ARITHMETIC,
    **CELLS,
    **CHECKS,
    **INTEGERS,
    "DynamicQuantizeLSTM": ConvertDynamic(),
    **PLACES,
    "Gather": _picked,
    "Max": _pairwise(relax.op.maximum),
    "Mean": _mean,
    "Min": _pairwise(relax.op.minimum),
    "Sum": _pairwise(relax.op.add),
    "TopK": _largest,
}
"""Converters by operator; each takes the inputs and the attributes, and returns a Relax expression."""
