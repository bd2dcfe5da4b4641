"""Computes products of 8-bit integers in integers, for machines with instructions for them.

A quantised network arrives as sums of integers in float32 (`models/rewrites/quantised`), exact in any order.
Here the products among them whose weight is constant become products of bytes with sums in int32:

    sum((x - zero) * w) + bias  =  sum(x * w) + (bias - zero * sum(w))

The input is padded with its zero point, which stands for the number 0. The sums are equal, and so is every
number behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx, topi
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.lowering.graph.rebuilt import Rebuilt, number_of, operands_of, operator_of

FULL, SUMS = "float32", "int32"
_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
_LARGEST = 2**31 - 1
_TOGETHER = 4
"""Products of a row and a column that instructions add at once."""
_EXACT = 2**24
"""Largest integer up to which float32 has them all: a bias beyond is not one of the file's int32 numbers."""


def with_integers(
    module: tvm.ir.IRModule,
    weights: Mapping[str, str],
    least: int | None = None,
    *,
    depthwise: bool = True,
) -> tvm.ir.IRModule:
    """Return a module whose products of 8-bit integers are computed as such; its constants are folded.

    Parameters
    ----------
    weights
        Type of the inputs that a machine multiplies -> type of the weights; empty: the module stays the same.
    least
        Smallest weight that the machine multiplies; None: any of its type.
    depthwise
        Whether convolutions of each channel by itself are computed in integers, too.
    """
    if not weights:
        return module
    made = _Integers(module, weights, least, depthwise)
    changed = made.build()
    return changed if made.found else module


@dataclass(frozen=True)
class _Product:
    """A product in float32 that can be computed in integers.

    Attributes
    ----------
    zero
        The constant part of the input's zero point.
    computed
        The part that the network computes, one integer of 8 bits; None if there is none.
    """

    call: relax.Call
    x: relax.Expr
    zero: int
    computed: relax.Expr | None
    weight: Array

    @property
    def columns(self) -> Array:
        """The sum of the weights of each output, in a shape to be added to the sums."""
        if not self.convolves:
            vectors: Array = self.weight.sum(-2, dtype=np.int64)
            return vectors if self.weight.ndim == 2 else np.expand_dims(vectors, -2)
        sums = self.weight.sum(tuple(range(1, self.weight.ndim)), dtype=np.int64)
        channels: Array = sums.reshape(-1, *[1] * (self.weight.ndim - 2))
        return channels

    @property
    def convolves(self) -> bool:
        """Whether it is a convolution, else a matrix product."""
        return self.call.op.name in _CONVOLUTIONS

    @property
    def depthwise(self) -> bool:
        """Whether every output is computed of one channel."""
        return self.convolves and self.weight.shape[1] == 1 and int(self.call.attrs.groups) > 1

    @property
    def in_rows(self) -> bool:
        """Whether it multiplies rows by columns: a matrix product, or a convolution with one output place."""
        return not self.convolves or prod(list(map(int, self.call.ty.shape))[2:]) == 1

    @property
    def products(self) -> int:
        """Number of products of a sum."""
        return prod(self.weight.shape[1:]) if self.convolves else self.weight.shape[-2]

    @property
    def largest(self) -> int:
        """Upper bound of the absolute value of a sum."""
        return 2 * 255 * 128 * self.products


class _Integers(Rebuilt):
    """The network with integers.

    Attributes
    ----------
    waiting
        Products by their variables; one whose only reader may be the sum with its bias is emitted there.
    sums
        Emitted sums of products in int32.
    """

    def __init__(
        self, module: tvm.ir.IRModule, weights: Mapping[str, str], least: int | None, depthwise: bool
    ) -> None:
        super().__init__(module)
        self.weights, self.least, self.depthwise = weights, least, depthwise
        self.uses: Counter[relax.Var] = Counter()
        for value in (*self.old.values(), self.main.body.body):
            relax.analysis.post_order_visit(value, self._count)
        self.waiting: dict[relax.Var, _Product] = {}
        self.sums: dict[relax.Var, relax.Expr] = {}
        self.found = 0

    def _count(self, value: relax.Expr) -> None:
        if isinstance(value, relax.Var):
            self.uses[value] += 1

    def bind(self, var: relax.Var, value: relax.Expr) -> None:
        """Emit a product in integers, or keep it until its bias is added."""
        product = self._product(value)
        if product is not None:
            self.found += 1
            self.waiting[var] = product
            return
        biased = self._biased(value)
        if biased is not None:
            self.values[var] = self._in_floats(self._sums(*biased))
            return
        product_of = self._converted(value)
        if product_of is not None:
            self.value(product_of)
            self.values[var] = self.sums[product_of]
            return
        super().bind(var, value)

    def value(self, var: relax.Var) -> relax.Expr:
        """Return a value; a product that waited for a bias is emitted without."""
        if var in self.waiting and var not in self.values:
            self.sums[var] = self._sums(self.waiting[var], None)
            self.values[var] = self._in_floats(self.sums[var])
        return super().value(var)

    def _product(self, value: relax.Expr) -> _Product | None:
        """Return the product of integers that a value is; None for another value."""
        name = operator_of(value)
        if name not in (*_CONVOLUTIONS, "relax.matmul") or str(value.ty.dtype) != FULL:
            return None
        x, weight = value.args
        if not isinstance(weight, GenericConst) or (name in _CONVOLUTIONS and not _first_channels(value)):
            return None
        found = self._centred(x)
        kind = None if found is None else self.weights.get(str(found[0].ty.dtype))
        if found is None or kind is None:
            return None
        numbers = weight.value.numpy()
        ends = np.iinfo(kind)
        least = ends.min if self.least is None else self.least
        if numbers.ndim < 2 or not _integral(numbers, least, ends.max):
            return None
        product = _Product(value, *found, numbers.astype(kind))
        if product.depthwise and not self.depthwise:
            return None
        if product.convolves and product.computed is not None and any(map(int, value.attrs.padding)):
            return None  # an image is padded with a constant
        if product.in_rows and product.products % _TOGETHER:
            return None
        return product if product.largest <= _LARGEST else None

    def _centred(self, value: relax.Expr) -> tuple[relax.Expr, int, relax.Expr | None] | None:
        """Return the integers and the zero point that a value comes from: `astype(integers) - zero`.

        The zero point has a constant and a computed part; None for another value.
        """
        zero, computed = 0, None
        found = self.old.get(value)
        while (difference := operands_of(found, "subtract")) is not None:
            found, less = self.old.get(difference[0]), difference[1]
            number, other = number_of(less), self._byte(less)
            if number is not None and abs(number) < _EXACT and number == int(number):
                zero += int(number)
            elif other is not None and computed is None:
                computed = other
            else:
                return None
        source = operands_of(found, "astype")
        if source is None or not isinstance(source[0], relax.Var):
            return None
        dtype = str(source[0].ty.dtype)
        if dtype not in ("int8", "uint8") or not np.iinfo(dtype).min <= zero <= np.iinfo(dtype).max:
            return None
        return source[0], zero, computed

    def _byte(self, value: relax.Expr) -> relax.Expr | None:
        """Return the one integer of 8 bits that a value in floats comes from; None for another value."""
        source = operands_of(self.old.get(value), "astype")
        if source is None or str(source[0].ty.dtype) not in ("int8", "uint8"):
            return None
        return source[0] if prod(map(int, list(source[0].ty.shape))) == 1 else None

    def _converted(self, value: relax.Expr) -> relax.Var | None:
        """Return the product whose sums a value converts to int32, in the careful way of TVM's importer.

        It makes 0 of what is not finite and wraps what is too large around; sums of integers are neither.
        """
        steps = ("astype", "where", "floor_mod", "astype", "where")
        places = (0, 2, 0, 0, 2)
        if operands_of(value, "astype") is None or str(value.ty.dtype) != SUMS:
            return None
        found: relax.Expr | None = value
        for name, place in zip(steps, places, strict=True):
            operands = operands_of(found, name)
            if operands is None:
                return None
            last, found = operands[place], self.old.get(operands[place])
        return last if last in self.waiting else None

    def _biased(self, value: relax.Expr) -> tuple[_Product, Array] | None:
        """Return the product and the bias of a sum of both; None for another value."""
        if operator_of(value) != "relax.add":
            return None
        product = self.waiting.get(value.args[0])
        if product is None or self.uses[value.args[0]] != 1:
            return None
        bias = self._constant(value.args[1])
        fits = bias is not None and _integral(bias, -_EXACT, _EXACT)
        if bias is None or not fits or bias.size not in (1, product.columns.size):
            return None
        return product, bias

    def _constant(self, value: relax.Expr) -> Array | None:
        while operator_of(self.old.get(value)) == "relax.reshape":
            value = self.old[value].args[0]
        if not isinstance(value, GenericConst):
            return None
        number: Array = value.value.numpy()
        return number

    def _sums(self, product: _Product, bias: Array | None) -> relax.Expr:
        """Emit a product in integers with its bias; return the sums."""
        zero, x, weight = product.zero, self.moved(product.x), relax.const(product.weight)
        if product.convolves:
            attrs = product.call.attrs

            def convolution(x: te.Tensor, weight: te.Tensor) -> te.Tensor:
                return _convolution(x, weight, attrs, zero)

            sums = self.builder.emit_te(convolution, x, weight, primfunc_name_hint="conv")
        else:
            sums = self.builder.emit(relax.op.matmul(x, weight, out_dtype=SUMS))
        columns = product.columns
        more = -zero * columns
        if bias is not None:
            more = more + np.reshape(bias.astype(np.int64), columns.shape if bias.size > 1 else ())
        if product.computed is not None:
            shift = self.builder.emit(relax.op.astype(self.moved(product.computed), SUMS))
            less = self.builder.emit(relax.op.multiply(shift, relax.const(columns.astype(SUMS))))
            sums = self.builder.emit(relax.op.subtract(sums, less))
        if np.any(more):
            sums = self.builder.emit(relax.op.add(sums, relax.const(more.astype(SUMS))))
        return sums

    def _in_floats(self, sums: relax.Expr) -> relax.Expr:
        return self.builder.emit(relax.op.astype(sums, FULL))


def _first_channels(call: relax.Call) -> bool:
    """Return whether channels come before the spatial axes, in images and weights."""
    attrs = call.attrs
    return str(attrs.data_layout).startswith("NC") and str(attrs.kernel_layout).startswith("OI")


def _integral(values: Array, least: int, most: int) -> bool:
    """Return whether all numbers are integers between two bounds."""
    return bool(np.all((values >= least) & (values <= most) & (values == np.rint(values))))


def _convolution(x: te.Tensor, weight: te.Tensor, attrs: tvm.ir.Attrs, outside: int) -> te.Tensor:
    """Return the sums of a convolution of an image that is padded with a number."""
    rank = len(weight.shape) - 2
    pads, stride = list(map(int, attrs.padding)), list(map(int, attrs.strides))
    dilation, groups = list(map(int, attrs.dilation)), int(attrs.groups)
    if any(pads):
        around = ([0, 0, *pads[:rank]], [0, 0, *pads[rank:]])
        x = topi.nn.pad(x, *around, pad_value=tirx.const(outside, x.dtype), name="padded")
    kernel = [int(extent) for extent in weight.shape[2:]]
    out = [
        (int(size) - step * (taps - 1) - 1) // stride_of + 1
        for size, step, taps, stride_of in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    channels = te.reduce_axis((0, weight.shape[1]), "channel")
    taps = [te.reduce_axis((0, extent), f"tap{axis}") for axis, extent in enumerate(kernel)]
    outputs, inputs = int(weight.shape[0]) // groups, int(weight.shape[1])

    def value(n: tirx.Var, channel: tirx.Var, *place: tirx.Var) -> Any:
        read = _windows(place, taps, stride, dilation)
        source = channels if groups == 1 else channel // outputs * inputs + channels
        factors = x(n, source, *read).astype(SUMS) * weight(channel, channels, *taps).astype(SUMS)
        return te.sum(factors, axis=[channels, *taps])

    return te.compute((x.shape[0], weight.shape[0], *out), value, name="conv")


def _windows(
    place: Sequence[tirx.Var], taps: Sequence[te.IterVar], stride: Sequence[int], dilation: Sequence[int]
) -> list[Any]:
    """Return where a tap of the kernel reads the padded image."""
    axes = zip(place, taps, stride, dilation, strict=True)
    return [at * step + tap * apart for at, tap, step, apart in axes]
