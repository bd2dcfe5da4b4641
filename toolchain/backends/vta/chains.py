"""Finds the convolutions in integers of a Relax module that one layer of a VTA can compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.vta.layers.layer import ConvLayer, ConvShape

Values = Mapping[relax.Var, relax.Expr]


@dataclass(frozen=True)
class LayerChain:
    """The operators from a convolution to its 8-bit result.

    Attributes
    ----------
    name
        Name for messages: shapes of weight and image.
    result, source, residual
        8-bit values; `residual` is None if nothing is added.
    layer
        The layer that a VTA computes; None if it cannot.
    refused
        Why a VTA cannot compute it.
    """

    name: str
    result: relax.Var
    source: relax.Expr
    residual: relax.Expr | None
    layer: ConvLayer | None
    refused: str = ""

    @property
    def reads(self) -> tuple[relax.Expr, ...]:
        """The 8-bit values that it reads."""
        return (self.source,) if self.residual is None else (self.source, self.residual)


def find_chains(function: relax.Function) -> dict[relax.Var, LayerChain]:
    """Return the chains of a function in order, by their result."""
    values = {binding.var: binding.value for binding in bindings_of(function)}
    found = (_chain(var, values) for var in values)
    return {chain.result: chain for chain in found if chain is not None}


def bindings_of(function: relax.Function) -> Iterator[relax.Binding]:
    """Yield the bindings of a function without branches, in order."""
    for block in function.body.blocks:
        yield from block.bindings


def operator(value: relax.Expr) -> str:
    """Return the name of the operator that computes a value, without `relax.`; empty if none does."""
    if not isinstance(value, relax.Call):
        return ""
    return str(getattr(value.op, "name", "")).removeprefix("relax.")


def _chain(var: relax.Var, values: Values) -> LayerChain | None:
    """Match the operators that `models/importing/converters.py` writes, beginning with the last."""
    cast = _argument(var, values, "astype", "int8")
    clip = _operands(cast, values, "clip")
    shift = _operands(clip[0] if clip else None, values, "right_shift")
    sums = _operands(shift[0] if shift else None, values, "add")
    if not (clip and shift and sums):
        return None
    residual = left = None
    convolution = _call(sums[0], values, "nn.conv2d")
    if convolution is None and (summed := _operands(sums[0], values, "add")):
        convolution = _call(summed[0], values, "nn.conv2d")
        shifted = _operands(summed[1], values, "left_shift")
        residual = _argument(shifted[0], values, "astype", "int32") if shifted else None
        left = _constant(shifted[1]) if shifted else None
        if residual is None or left is None:
            return None
    if convolution is None or str(convolution.attrs.out_dtype) != "int32":
        return None
    weight, bias, right = (_constant(each) for each in (convolution.args[1], sums[1], shift[1]))
    if weight is None or bias is None or right is None:
        return None
    source = convolution.args[0]
    rows, columns = (int(extent) for extent in list(source.ty.shape)[2:])
    name = f"{'x'.join(map(str, weight.shape))} on {rows}x{columns}"
    low, high = (int(getattr(end, "value", end)) for end in clip[1:])
    try:
        shape = _shape(convolution, source, weight)
        lefts = None if left is None else left.ravel()
        layer = ConvLayer(shape, weight, bias.ravel(), right.ravel(), lefts, low, high)
    except UsageError as error:
        return LayerChain(name, var, source, residual, None, error.message)
    return LayerChain(name, var, source, residual, layer)


def _shape(convolution: relax.Call, source: relax.Expr, weight: Array) -> ConvShape:
    own = convolution.attrs
    batch, channels, height, width = (int(extent) for extent in source.ty.shape)
    top, left, bottom, right = (int(pad) for pad in own.padding)
    if (top, left) != (bottom, right) or any(int(each) != 1 for each in own.dilation) or int(own.groups) != 1:
        raise UsageError("its padding differs from side to side, or its taps or channels do not lie together")
    outputs, _, taps_y, taps_x = weight.shape
    down, across = (int(stride) for stride in own.strides)
    return ConvShape(batch, height, width, channels, outputs, taps_y, taps_x, top, left, down, across)


def _call(value: relax.Expr | None, values: Values, name: str) -> relax.Call | None:
    """Return the operator call that computes a value, if its operator is `name`."""
    call = values.get(value) if isinstance(value, relax.Var) else None
    return call if call is not None and operator(call) == name else None


def _operands(value: relax.Expr | None, values: Values, name: str) -> list[relax.Expr]:
    call = _call(value, values, name)
    return [] if call is None else list(call.args)


def _argument(value: relax.Expr, values: Values, name: str, dtype: str) -> relax.Expr | None:
    """Return the operand of a cast to `dtype`."""
    call = _call(value, values, name)
    return call.args[0] if call is not None and str(call.ty.dtype) == dtype else None


def _constant(value: relax.Expr) -> Array | None:
    return np.asarray(value.value.numpy()) if isinstance(value, GenericConst) else None
