"""Converters of the checks that `models/bounds` inserts, to calls of edge-rt's packed functions.

The same functions are registered in this process, where tests run networks; their messages are shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx

from toolchain.arrays import Array
from toolchain.models.bounds.insert import DIVISOR, INDICES
from toolchain.tvm_compat import Converter

CHECK_INDICES, CHECK_DIVISOR = "edge.check.indices", "edge.check.divisor"
"""Names of the functions that native/src/check.cc registers."""


def _indices(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    return _call(
        CHECK_INDICES,
        inputs[0],
        relax.ShapeExpr([int(extent) for extent in attributes["extents"]]),
        tirx.IntImm("int64", int(attributes["negative"])),
        *_words(attributes),
    )


def _divisor(inputs: list[relax.Expr], attributes: dict[str, Any]) -> relax.Expr:
    return _call(CHECK_DIVISOR, inputs[0], *_words(attributes))


def _words(attributes: dict[str, Any]) -> list[tvm.ir.StringImm]:
    return [tvm.ir.StringImm(attributes[name].decode()) for name in ("what", "who")]


def _call(function: str, values: relax.Expr, *arguments: Any) -> relax.Expr:
    # The check copies its input to its output, so that nothing can use the values before the check.
    return relax.call_dps_packed(function, [values, *arguments], values.ty)


CHECKS: dict[str, Converter] = {INDICES: _indices, DIVISOR: _divisor}
"""Converters by operator; see `converters.CONVERTERS`."""


def _check_indices(
    values: tvm.runtime.Tensor, extents: Any, negative: int, what: str, who: str, out: tvm.runtime.Tensor
) -> None:
    array = values.numpy()
    ends = np.resize(np.array(list(extents), np.int64), array.shape or (1,)).reshape(array.shape)
    begins = -ends if negative else 0 * ends
    wrong = (ends != 0) & ~((array >= begins) & (array < ends))
    _refuse(array, wrong, what, f"{who} from {begins.min()} to {ends.max() - 1}")
    out.copyfrom(np.where((array < 0) & (negative == 1), array + ends.astype(array.dtype), array))


def _check_divisor(values: tvm.runtime.Tensor, what: str, who: str, out: tvm.runtime.Tensor) -> None:
    _refuse(values.numpy(), values.numpy() == 0, what, who)
    out.copyfrom(values)


def _refuse(array: Array, wrong: Array, what: str, who: str) -> None:
    if wrong.any():
        raise ValueError(f"{what} holds {array[wrong].flat[0]}, and {who}")


tvm.register_global_func(CHECK_INDICES, _check_indices, override=True)
tvm.register_global_func(CHECK_DIVISOR, _check_divisor, override=True)
