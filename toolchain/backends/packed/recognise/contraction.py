"""Recognises the contraction of a function, without its epilogue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product as pairs
from math import prod
from typing import ClassVar, TypeAlias

import numpy as np
from tvm import tirx
from tvm.sym import Analyzer

from toolchain.arrays import Array
from toolchain.backends.packed.recognise.convolution import Convolution, convolution, product
from toolchain.backends.packed.recognise.expressions import bind, calls, inlined
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, Var, loads, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed, transposed

# Recognises matrix products by the computation of a block.

_TYPES = {
    (frozenset({"float32"}), "float32"),
    (frozenset({"float16"}), "float32"),
    (frozenset({"uint8", "int8"}), "int32"),
    (frozenset({"int8"}), "int32"),
}
"""Types of factors and of their sums."""


@dataclass(frozen=True)
class Axes:
    """Axes treated as one, in row-major order."""

    vars: tuple[Var, ...]
    extents: tuple[int, ...]

    @property
    def extent(self) -> int:
        """Number of places: the product of the extents."""
        return prod(self.extents)


@dataclass(frozen=True)
class Operand:
    """A buffer, and the index at which it is read or written, in terms of the axes."""

    buffer: tirx.Buffer
    index: tuple[Expr, ...]

    def runs_along(self, axes: Axes) -> bool:
        """Return whether neighbours on the last of some axes are neighbours in memory."""
        last = next((at for at in reversed(range(len(self.index))) if int(self.buffer.shape[at]) > 1), None)
        return last is not None and bool(axes.vars) and self.index[last].same_as(axes.vars[-1])


@dataclass(frozen=True)
class Matmul:
    """A matrix product: y[batch, row, column] = sum over k of a[batch, row, k] * b[batch, k, column].

    Attributes
    ----------
    columns
        The axis of the output's columns: its last.
    a, b, out
        Operands, as loads over the axes; `out` is in `y`, which the product's own stage writes.
    weight
        Parameter with `b`; None if the function computes `b`.
    window
        Convolution that is computed as this product: its one window covers the image; `spread` makes `b` from
        its weight.
    """

    batch: Axes
    rows: Axes
    columns: Axes
    inner: Axes
    a: Operand
    b: Operand
    out: Operand
    weight: tirx.Buffer | None
    window: Convolution | None = None

    in_blocks: ClassVar[bool] = False  # computed on plain values

    @property
    def x(self) -> tirx.Buffer:
        """The left operand."""
        return self.a.buffer

    @property
    def dtype(self) -> str:
        """Type of what is multiplied."""
        return str(self.x.dtype)

    @property
    def operands(self) -> tuple[tirx.Buffer, ...]:
        """The buffers that are read."""
        return (self.a.buffer, self.b.buffer)

    def with_variable_weight(self) -> Matmul | None:
        """Return the product for a variable weight; None if its weight has to be rearranged."""
        return None if self.window is not None else replace(self, weight=None)

    @property
    def in_rows(self) -> bool:
        """Whether the weight is constant, and the numbers of a row of `a` are neighbours in memory."""
        last = self.a.index[-len(self.inner.vars) :]
        pairs = zip(last, self.inner.vars, strict=True)
        whole = tuple(int(size) for size in self.x.shape[-len(last) :]) == self.inner.extents
        return self.weight is not None and whole and all(index.same_as(var) for index, var in pairs)

    @property
    def y(self) -> tirx.Buffer:
        """The buffer that the product's own stage writes; the epilogue reads it."""
        return self.out.buffer

    def matrix(self, weight: Array) -> Array:
        """Return a constant `weight` as (batch axes that it depends on, inner, columns)."""
        if self.window is not None:
            return spread(weight, self.window)
        batch = (var for var, read in zip(self.batch.vars, self.batch_of_b, strict=True) if read)
        order = (*batch, *self.inner.vars, *self.columns.vars)
        places = [next(at for at, own in enumerate(self.b.index) if own.same_as(var)) for var in order]
        rest = [at for at in range(weight.ndim) if at not in places]
        moved = weight.transpose(*rest, *places)
        return moved.reshape(-1, self.inner.extent, self.columns.extent)

    @property
    def batch_of_b(self) -> tuple[bool, ...]:
        """Whether `b` depends on the axis, for each batch axis."""
        return tuple(any(var.same_as(own) for own in self.b.index) for var in self.batch.vars)


def spread(weight: Array, conv: Convolution) -> Array:
    """Return the matrix (1, ci * size, co) of a convolution with a one-element output per channel.

    Inputs that no tap reaches have zeros.
    """
    weight = conv.reached(weight)
    full: Array = np.zeros((conv.co, conv.ci, *conv.size), weight.dtype)
    reach = [
        [(tap, tap * dilation - before) for tap in range(kernel) if 0 <= tap * dilation - before < size]
        for kernel, dilation, before, size in zip(
            conv.kernel, conv.dilation, conv.pads, conv.size, strict=False
        )
    ]
    inputs, outputs = conv.ci // conv.groups, conv.co // conv.groups
    for taps in pairs(*reach):
        source, target = zip(*taps, strict=True)
        for group in range(conv.groups):
            ours = slice(group * outputs, (group + 1) * outputs)
            theirs = slice(group * inputs, (group + 1) * inputs)
            full[ours, theirs][(..., *target)] = weight[ours][(..., *source)]
    return full.reshape(1, conv.co, -1).transpose(0, 2, 1)


def covers(conv: Convolution) -> bool:
    """Return whether a convolution has one output place and is not depthwise: it is a matrix product.

    A matrix has no place for products of what is outside of the image, unless they are 0.
    """
    return prod(conv.out) == 1 and not conv.depthwise and not (conv.outside and any(conv.pads))


def window(conv: Convolution) -> Matmul:
    """Return a convolution that `covers` its image as a matrix product."""

    def axes(name: str, *extents: int) -> Axes:
        return Axes(tuple(tirx.Var(f"{name}{at}", "int32") for at in range(len(extents))), extents)

    rows, columns, inner = axes("row", conv.batch), axes("column", conv.co), axes("k", conv.ci, *conv.size)
    one = (tirx.IntImm("int32", 0),) * len(conv.out)
    return Matmul(
        batch=Axes((), ()),
        rows=rows,
        columns=columns,
        inner=inner,
        a=Operand(conv.x, (*rows.vars, *inner.vars)),
        b=Operand(conv.weight, ()),
        out=Operand(conv.y, (*rows.vars, *columns.vars, *one)),
        weight=conv.weight,
        window=conv,
    )


def matmul(read: Read) -> Matmul | None:
    """Return the first matrix product that a function computes; None if it computes none."""
    for stage in read.stages:
        found = _matmul(read, stage)
        if found is not None:
            return found
    return None


def _matmul(read: Read, stage: Stage) -> Matmul | None:
    factors = product(stage)
    if factors is None:
        return None
    loads = [Operand(each.source, tuple(each.indices)) for each in factors]
    out = Operand(stage.buffer, stage.indices)
    places = [_places(stage, operand.index) for operand in (*loads, out)]
    dtypes = {str(operand.buffer.dtype) for operand in loads}
    if (frozenset(dtypes), str(out.buffer.dtype)) not in _TYPES:
        return None
    if any(each is None for each in places):
        return None
    first, second, written = ({at for at in each if at is not None} for each in places if each is not None)
    inner = {at for at, reduced in enumerate(stage.reduce) if reduced}
    spatial = set(range(len(stage.axes))) - inner
    if written != spatial or not inner or not inner <= first & second or not spatial <= first | second:
        return None
    if not written or stage.position(_last(stage)) in first & second:
        return None
    column = stage.position(_last(stage))
    if column in first:
        loads, first, second = loads[::-1], second, first
    rows = first - second - inner
    a, b = loads

    def axes(chosen: set[int]) -> Axes:
        ordered = sorted(chosen)
        return Axes(tuple(stage.axes[at] for at in ordered), tuple(stage.extents[at] for at in ordered))

    return Matmul(
        batch=axes(spatial - rows - {column}),
        rows=axes(rows),
        columns=axes({column}),
        inner=axes(inner),
        a=a,
        b=b,
        out=out,
        weight=b.buffer if read.place(b.buffer) is not None else None,
    )


def _last(stage: Stage) -> Var:
    """Return the last axis of a stage's output."""
    return next(index for index in reversed(stage.indices) if isinstance(index, tirx.Var))


def _places(stage: Stage, index: Sequence[Expr]) -> list[int | None] | None:
    """Return the axis of each index, None for a constant index; None if an index is something else."""
    found: list[int | None] = []
    for each in index:
        if isinstance(each, tirx.Var):
            found.append(stage.position(each))
        elif isinstance(each, tirx.IntImm):
            found.append(None)
        else:
            return None
    known = [each for each in found if each is not None]
    return found if len(set(known)) == len(known) else None


Contraction: TypeAlias = Convolution | Matmul | Transposed


def recognise(read: Read) -> Contraction | None:
    """Return the first contraction in a function; None if it has none."""
    conv = convolution(read)
    if conv is not None:
        return window(conv) if covers(conv) else conv
    return transposed(read) or matmul(read)


# Splits a function with more than one contraction into several functions.

FLOATING = frozenset({"float32", "float16"})


def parts(read: Read, stored: Set[str] = FLOATING) -> list[tuple[Read, Contraction | None]]:
    """Return the functions into which a function is split, in order, with the contraction of each.

    The output of every part but the last is a parameter of later parts.

    Parameters
    ----------
    stored
        Types in which the function of a contraction may store its result.
    """
    contraction = recognise(read)
    if contraction is None:
        return [(read, None)]
    before = [buffer for buffer in contraction.operands if _computed(read, buffer)]
    end = _end(read, contraction.y, stored)
    if not before and end.same_as(read.output):
        return [(read, contraction)]
    found: list[tuple[Read, Contraction | None]] = []
    for part in split(read, [*before, end]):
        found += [(part, contraction)] if part.output.same_as(end) else parts(part, stored)
    return found


def split(read: Read, cuts: Sequence[tirx.Buffer]) -> list[Read]:
    """Return functions that compute each buffer of `cuts`, and the output from them."""
    targets = [*cuts] if cuts[-1].same_as(read.output) else [*cuts, read.output]
    return [until(read, target, [cut for cut in cuts if not cut.same_as(target)]) for target in targets]


def until(read: Read, target: tirx.Buffer, given: Sequence[tirx.Buffer] = ()) -> Read:
    """Return the function that computes only `target`, with `given` among its parameters."""
    wanted = [target]
    stages: list[Stage] = []
    for stage in reversed(read.stages):
        written = [part.buffer for part in stage.parts]
        if any(among(buffer, wanted) and not among(buffer, given) for buffer in written):
            stages.insert(0, stage)
            wanted += [load.source for part in stage.parts for load in loads(part.value)]
    known = [param for param in read.params if read.producer(param) is None]
    inputs = [buffer for buffer in (*known, *given) if among(buffer, wanted)]
    return Read((*inputs, target), tuple(stages))


def among(buffer: tirx.Buffer, buffers: Iterable[tirx.Buffer]) -> bool:
    """Return whether a buffer is one of these."""
    return any(buffer.same_as(each) for each in buffers)


def _computed(read: Read, buffer: tirx.Buffer) -> bool:
    """Return whether a buffer is computed and too expensive to compute for every read."""
    if read.producer(buffer) is None:
        return False
    stages = until(read, buffer, []).stages
    return any(stage.init is not None or calls(stage.value) for stage in stages)


def _end(read: Read, y: tirx.Buffer, stored: Set[str]) -> tirx.Buffer:
    """Return the last value that depends element-wise on `y` and on which all later values depend."""
    after = [stage.buffer for stage in read.stages]
    while not after.pop(0).same_as(y):
        pass
    for buffer in reversed(after):
        rest = until(read, read.output, [buffer])
        needs = rest.producer(y) is not None
        if (buffer.same_as(read.output) or not needs) and _elementwise(read, y, buffer, stored):
            return buffer
    return y


def _elementwise(read: Read, y: tirx.Buffer, buffer: tirx.Buffer, stored: Set[str]) -> bool:
    """Return whether an element of `buffer` depends on no other element of `y` than its own."""
    if shape_of(buffer) != shape_of(y):
        return False
    analyzer = Analyzer()
    here = [bind(analyzer, tirx.Var("i", "int32"), extent) for extent in shape_of(y)]
    own = True

    def load(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        nonlocal own
        if source.same_as(y):
            own &= all(analyzer.can_prove_equal(*pair) for pair in zip(index, here, strict=True))
        elif read.producer(source) is not None:
            return None
        return tirx.BufferLoad(source, index)

    try:
        inlined(read, load, analyzer)(buffer, list(here))
    except UnreadableError:
        return False
    return own and str(buffer.dtype) in stored
