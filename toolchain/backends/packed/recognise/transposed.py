"""Recognises transposed convolutions by the computation of a block.

TVM's topi writes them as a convolution with stride 1: its input has zeros between the elements, and its
kernel is reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from operator import add

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.convolution import Windowed, equal, product
from toolchain.backends.packed.recognise.expressions import bind, inlined, linear
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, loads, shape_of


@dataclass(frozen=True)
class OutputPhase:
    """How the outputs o = stride * t + `remainder` of one axis are computed.

    Tap `first` + j * `step` of the kernel meets input t + `offset` - j * `back`, for j < `taps`.
    """

    remainder: int
    taps: int
    first: int
    step: int
    offset: int
    back: int


@dataclass(frozen=True)
class Transposed(Windowed):
    """A transposed convolution; its weight is (ci, co / groups, *kernel).

    Attributes
    ----------
    crop
        Number of elements cropped before every axis of the full result: the model's pads.
    """

    crop: tuple[int, ...]

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding of the input that is read."""
        before, after = [], []
        for axis, size in enumerate(self.size):
            used = [phase for phase in self.phases(axis) if phase.taps and self.places(axis, phase)]
            before.append(max((phase.back * (phase.taps - 1) - phase.offset for phase in used), default=0))
            reach = (self.places(axis, phase) - 1 + phase.offset for phase in used)
            after.append(max(reach, default=0) - size + 1)
        return tuple(max(0, each) for each in (*before, *after))

    def phases(self, axis: int) -> list[OutputPhase]:
        """Return the phases of an axis, one for each remainder."""
        stride, dilation, kernel = self.stride[axis], self.dilation[axis], self.kernel[axis]
        common = gcd(stride, dilation)
        found = []
        for remainder in range(stride):
            place = remainder + self.crop[axis]
            taps = [tap for tap in range(kernel) if (place - tap * dilation) % stride == 0]
            first = taps[0] if taps else 0
            offset = (place - first * dilation) // stride
            found.append(
                OutputPhase(remainder, len(taps), first, stride // common, offset, dilation // common)
            )
        return found

    def places(self, axis: int, phase: OutputPhase) -> int:
        """Return the number of outputs of an axis in a phase."""
        return max(0, -(-(self.out[axis] - phase.remainder) // self.stride[axis]))


def transposed(read: Read) -> Transposed | None:
    """Return the transposed convolution that a function computes, without epilogue; None if none."""
    for stage in read.stages:
        found = _transposed(read, stage)
        if found is not None:
            return found
    return None


def _transposed(read: Read, stage: Stage) -> Transposed | None:
    factors = product(stage)
    if factors is None:
        return None
    x, turned = factors
    rank = len(x.indices)
    if rank not in (3, 4, 5) or len(turned.indices) != rank or len(stage.axes) != 2 * rank - 1:
        return None
    taps = turned.indices[2:]
    if not all(isinstance(index, tirx.Var) for index in (*stage.indices, *taps)):
        return None
    batch, channel, *out = stage.indices
    named = (*stage.indices, *taps)
    inner = next((axis for axis in stage.axes if not any(axis.same_as(own) for own in named)), None)
    source, weight = _spread(read, x.source), _spread(read, turned.source)
    if inner is None or source is None or weight is None or not x.indices[0].same_as(batch):
        return None
    ci, co, each = source.shape[1], stage.extent(channel), weight.shape[1]
    groups = co // each
    theirs = channel // each * (ci // groups) + inner
    wanted = [theirs, *(place + tap for place, tap in zip(out, taps, strict=True))]
    if not equal(stage, x.indices[1:], wanted):
        return None
    if not equal(stage, turned.indices[:2], [channel % each, theirs]):
        return None
    if not source.forward or weight.forward or any(weight.before):
        return None
    windows = shape_of(turned.source)[2:]
    return Transposed(
        batch=source.shape[0],
        ci=ci,
        co=co,
        groups=groups,
        size=source.shape[2:],
        kernel=weight.shape[2:],
        out=tuple(stage.extent(axis) for axis in out),
        stride=source.stride,
        dilation=weight.stride,
        crop=tuple(full - 1 - before for full, before in zip(windows, source.before, strict=True)),
        x=source.buffer,
        weight=weight.buffer,
        y=stage.buffer,
    )


@dataclass(frozen=True)
class _Spread:
    """A parameter with zeros between its elements, and `before` of them in front of every axis.

    Where it is not `forward` it is turned round, and its first two axes are swapped.
    """

    buffer: tirx.Buffer
    stride: tuple[int, ...]
    before: tuple[int, ...]
    forward: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.buffer)

    def place(self, axis: int, element: Expr) -> Expr:
        """Return the position of an element of a spatial axis."""
        size, stride = self.shape[2 + axis], self.stride[axis]
        return self.before[axis] + stride * (element if self.forward else size - 1 - element)


def _spread(read: Read, buffer: tirx.Buffer) -> _Spread | None:
    """Return how a buffer is spread from a parameter, proved by its value at every kind of position."""
    before = (0,) * (len(buffer.shape) - 2)
    forward, origin = True, buffer
    while (stage := read.producer(origin)) is not None:
        found = loads(stage.value)
        if len(found) != 1 or len(found[0].indices) != len(stage.axes):
            return None
        forms = [linear(index, stage.axes) for index in found[0].indices[2:]]
        shifts = [-int(form[1]) for form in forms if form is not None and isinstance(form[1], tirx.IntImm)]
        if len(shifts) == len(before):
            if any(form is not None and -1 in form[0].values() for form in forms):
                forward = False
            else:
                before = tuple(map(add, before, shifts))
        origin = found[0].source
    full, inner = shape_of(buffer)[2:], shape_of(origin)[2:]
    if len(full) != len(inner) or read.place(origin) is None:
        return None
    stage = next(
        stage for stage in read.stages if any(load.source.same_as(origin) for load in loads(stage.value))
    )
    middle = shape_of(stage.buffer)[2:]
    stride = tuple(
        max(1, (wide - 1) // (size - 1)) if size > 1 else 1 for wide, size in zip(middle, inner, strict=True)
    )
    spread = _Spread(origin, stride, before, forward)
    return spread if _holds(read, buffer, spread) else None


def _holds(read: Read, buffer: tirx.Buffer, spread: _Spread) -> bool:
    """Return whether a buffer has each element where `spread` says, and zeros everywhere else."""
    analyzer = Analyzer()

    def free(extent: int) -> Expr:
        return bind(analyzer, tirx.Var("i", "int32"), extent)

    def stored(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        return tirx.BufferLoad(source, index) if source.same_as(spread.buffer) else None

    def value(index: Sequence[Expr]) -> Expr:
        return analyzer.simplify(inlined(read, stored, analyzer)(buffer, [*channels, *index]))

    full, size = shape_of(buffer), spread.shape
    channels = [free(extent) for extent in full[:2]]
    elements = [free(extent) for extent in size[2:]]
    own = [spread.place(axis, element) for axis, element in enumerate(elements)]
    found = value(own)
    wanted = [*(channels if spread.forward else reversed(channels)), *elements]
    if not isinstance(found, TensorLoad) or not all(map(analyzer.can_prove_equal, found.indices, wanted)):
        return False
    for axis, extent in enumerate(full[2:]):
        first, last = spread.before[axis], spread.before[axis] + spread.stride[axis] * (size[2 + axis] - 1)
        between = [
            (first + spread.stride[axis] * free(size[2 + axis] - 1) + rest)
            for rest in range(1, spread.stride[axis])
        ]
        ends = [
            start + free(count) for start, count in ((0, first), (last + 1, extent - last - 1)) if count > 0
        ]
        for place in (*between, *ends):
            zero = value([*own[:axis], place, *own[axis + 1 :]])
            if not isinstance(zero, tirx.FloatImm) or float(zero) != 0.0:
                return False
    return True
