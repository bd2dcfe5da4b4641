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
}
"""Converters by operator; each takes the inputs and the attributes, and returns a Relax expression."""
