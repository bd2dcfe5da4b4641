"""Recognises convolutions by the computation of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain.arrays import Array
from toolchain.backends.packed.recognise.expressions import bind, calls, linear
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, shape_of

_WIDENED = {("float32", "float16"), ("int32", "int8"), ("int32", "uint8")}
"""Types of a sum's number, and of a narrower one that it was converted from."""
BYTES = frozenset({"int8", "uint8"})
_FACTORS = {("int8", "uint8"), ("uint8", "int8")}
"""Types that may differ: of an input and of its weight."""


@dataclass(frozen=True)
class Windowed:
    """The common part of convolutions and transposed ones: one to three spatial axes, (n, c, *spatial).

    Attributes
    ----------
    size, kernel, out, stride, dilation
        Numbers for each spatial axis.
    x, weight
        Parameters with the input (without padding) and the weight.
    y
        Buffer that the convolution's own stage writes; the epilogue reads it.
    """

    batch: int
    ci: int
    co: int
    groups: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    out: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    x: tirx.Buffer
    weight: tirx.Buffer
    y: tirx.Buffer
    in_blocks: ClassVar[bool] = True  # computed on images in blocks of channels

    @property
    def operands(self) -> tuple[tirx.Buffer, ...]:
        """The buffers that are read."""
        return (self.x, self.weight)

    @property
    def dtype(self) -> str:
        """Type of what is multiplied."""
        return str(self.x.dtype)

    def with_variable_weight(self) -> None:
        """Return None: the algorithms need a constant weight."""


@dataclass(frozen=True)
class Convolution(Windowed):
    """A convolution; its weight is (co, ci / groups, *kernel).

    Attributes
    ----------
    pads
        Padding that the windows reach, before every axis and then after it. The latter may be less than the
        model's: padding that no window reaches is not needed.
    skipped
        Number of the model's taps before the kernel's, for each axis: they meet the image for no output.
        Such taps after the kernel's are dropped too.
    rounded
        Whether the function rounds to integers: then a small error in a sum near a half becomes a whole step.
    outside
        Number with which the image is padded: 0, or the zero point of integers.
    """

    pads: tuple[int, ...]
    skipped: tuple[int, ...] = ()
    rounded: bool = False
    outside: int = 0

    def reached(self, weight: Array) -> Array:
        """Return the model's weight without the taps that meet the image for no output."""
        if not self.skipped:
            return weight
        taps = (slice(first, first + count) for first, count in zip(self.skipped, self.kernel, strict=True))
        return weight[(slice(None), slice(None), *taps)]

    @property
    def depthwise(self) -> bool:
        """Whether every group has one input and one output channel."""
        return self.groups == self.ci == self.co and self.groups > 1


def convolution(read: Read) -> Convolution | None:
    """Return the convolution that a function computes, without epilogue; None if it computes none."""
    for stage in read.stages:
        found = _convolution(read, stage)
        if found is not None:
            return found
    return None


def product(stage: Stage) -> tuple[TensorLoad, TensorLoad] | None:
    """Return the two factors of a stage that sums up products of loads; None for another stage."""
    value = stage.value
    if stage.init is None or not isinstance(value, tirx.Add) or not isinstance(value.b, tirx.Mul):
        return None
    one, other = _narrow(value.b.a), _narrow(value.b.b)
    types = (str(one.ty.dtype), str(other.ty.dtype))
    if (types[0] != types[1] and types not in _FACTORS) or not isinstance(value.a, TensorLoad):
        return None
    if not isinstance(one, TensorLoad) or not isinstance(other, TensorLoad):
        return None
    return one, other


def _narrow(value: Expr) -> Expr:
    """Return the number that this converts to the type of the sums; any other value unchanged."""
    if isinstance(value, tirx.Cast) and (str(value.ty.dtype), str(value.value.ty.dtype)) in _WIDENED:
        return value.value
    return value


def _convolution(read: Read, stage: Stage) -> Convolution | None:
    factors = product(stage)
    if factors is None:
        return None
    x, weight = factors
    rank = len(x.indices)
    if rank not in (3, 4, 5) or len(weight.indices) != rank or len(stage.indices) != rank:
        return None
    if len(stage.axes) != 2 * rank - 1 or not all(isinstance(each, tirx.Var) for each in stage.indices):
        return None
    if not all(isinstance(each, tirx.Var) for each in weight.indices):
        return None
    if not x.indices[0].same_as(stage.indices[0]) or not weight.indices[0].same_as(stage.indices[1]):
        return None
    out_axes = [stage.position(axis) for axis in stage.indices[2:]]
    kernel_axes = [stage.position(axis) for axis in weight.indices[2:]]
    stride, dilation = [], []
    for index, out, kernel in zip(x.indices[2:], out_axes, kernel_axes, strict=True):
        form = linear(index, stage.axes)
        if form is None or set(form[0]) != {out, kernel}:
            return None
        stride.append(form[0][out])
        dilation.append(form[0][kernel])
    source, before, outside = _unpadded(read, x.source)
    if source is None or read.place(weight.source) is None:
        return None
    size = shape_of(source)
    if not _channels_match(stage, x, weight, size[1]):
        return None
    windows = tuple(stage.extents[axis] for axis in kernel_axes)
    places = tuple(stage.extents[axis] for axis in out_axes)
    axes = zip(places, stride, dilation, windows, before, size[2:], strict=True)
    live = [_live(*axis) if not outside else (0, axis[3]) for axis in axes]
    before = tuple(b - first * d for b, (first, _), d in zip(before, live, dilation, strict=True))
    windows = tuple(count for _first, count in live)
    dilation = [d if count > 1 else 1 for d, count in zip(dilation, windows, strict=True)]
    reach = [
        (o - 1) * s + d * (k - 1) + 1 for o, s, d, k in zip(places, stride, dilation, windows, strict=True)
    ]
    after = tuple(max(0, r - full - b) for r, full, b in zip(reach, size[2:], before, strict=True))
    return Convolution(
        batch=size[0],
        ci=size[1],
        co=stage.extent(stage.indices[1]),
        groups=size[1] // shape_of(weight.source)[1],
        size=size[2:],
        kernel=windows,
        out=places,
        stride=tuple(stride),
        dilation=tuple(dilation),
        pads=(*before, *after),
        skipped=tuple(first for first, _count in live),
        rounded=any(calls(each.value, "round") for each in read.stages),
        outside=outside,
        x=source,
        weight=weight.source,
        y=stage.buffer,
    )


def _live(out: int, stride: int, dilation: int, taps: int, before: int, size: int) -> tuple[int, int]:
    """Return the first tap that meets the image for some output, and the number of taps up to the last one.

    With a large dilation, the other taps meet only padding, for every output.
    """

    def meets(tap: int) -> bool:
        start = tap * dilation - before  # read by the first output; the last reads (out - 1) * stride further
        first = max(0, -(start // stride))  # the first output that reads at or after the image's begin
        return first < out and start + first * stride < size

    found = [tap for tap in range(taps) if meets(tap)]
    if not found:
        return 0, taps
    # If no tap is in the padding before it, a window begins inside the image and needs another origin.
    first = min(found[0], before // dilation)
    return first, found[-1] + 1 - first


def _channels_match(stage: Stage, x: TensorLoad, weight: TensorLoad, ci: int) -> bool:
    """Return whether every group of output channels sums up over its group's input channels."""
    channel, inner = stage.indices[1], weight.indices[1]
    each = shape_of(weight.source)[1]
    groups = ci // each
    if ci % each or stage.extent(channel) % groups or not stage.reduce[stage.position(inner)]:
        return False
    outputs = stage.extent(channel) // groups
    return equal(stage, [x.indices[1]], [channel // outputs * each + inner])


def equal(stage: Stage, found: Sequence[Expr], wanted: Sequence[Expr]) -> bool:
    """Return whether expressions over a stage's axes are provably equal."""
    analyzer = Analyzer()
    for axis, extent in zip(stage.axes, stage.extents, strict=True):
        bind(analyzer, axis, extent)
    return all(analyzer.can_prove_equal(one, other) for one, other in zip(found, wanted, strict=True))


def _unpadded(read: Read, buffer: tirx.Buffer) -> tuple[tirx.Buffer | None, tuple[int, ...], int]:
    """Return the parameter behind a padded buffer, its padding before each axis, and the number in it.

    The parameter is None if the buffer is computed otherwise.
    """
    stage = read.producer(buffer)
    rank = len(buffer.shape)
    if stage is None:
        return (buffer if read.place(buffer) is not None else None), (0,) * (rank - 2), 0
    value, number = stage.value, 0
    if isinstance(value, tvm.ir.Call) and len(value.args) == 3:  # if_then_else(inside, value, number)
        _inside, value, outside = value.args
        if isinstance(outside, tirx.IntImm) and str(value.ty.dtype) in BYTES:
            number = int(outside)
        elif not isinstance(outside, tirx.FloatImm) or float(outside) != 0.0:
            return None, (), 0
    if not isinstance(value, TensorLoad) or read.place(value.source) is None:
        return None, (), 0
    before: list[int] = []
    for place, index in enumerate(value.indices):
        form = linear(index, stage.axes)
        own = stage.indices[place] if place < len(stage.indices) else None
        if form is None or own is None or form[0] != {stage.position(own): 1}:
            return None, (), 0
        if not isinstance(form[1], tirx.IntImm):
            return None, (), 0
        before.append(-int(form[1]))
    if any(before[:2]) or min(before) < 0:
        return None, (), 0
    return value.source, tuple(before[2:]), number
