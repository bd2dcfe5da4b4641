"""What the generators of convolutions share: parameters, epilogue, halo, tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.elementary import WRITTEN_OUT, in_arithmetic
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import bind, calls, epilogue
from toolchain.backends.packed.recognise.read import Expr, Read, Var, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed
from toolchain.lowering.vectors import EXPLICIT

# Per parameter of the unpacked function; None: as the network has it.
Layouts = Sequence[Layout | None]


def build(body: Callable[[], None]) -> tirx.PrimFunc:
    """Return the function whose arguments and loops `body` emits; it needs no schedule."""
    with IRBuilder() as builder, ir.prim_func():
        ir.func_name("main")
        ir.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True, EXPLICIT: True})
        body()
    return in_arithmetic(builder.get())


@contextmanager
def when(condition: Expr | None) -> Iterator[None]:
    """Emit what follows under a condition; None: always."""
    if condition is None:
        yield
    else:
        with ir.If(condition), ir.Then():
            yield


@contextmanager
def grid(extents: Sequence[int], analyzer: Analyzer, *, unrolled: bool = False) -> Iterator[list[Var]]:
    """Emit loops around what follows, none for no extents."""
    if not extents:
        yield []
        return
    if unrolled:
        with ir.unroll(0, extents[0]) as first, grid(extents[1:], analyzer, unrolled=True) as rest:
            yield [bind(analyzer, first, extents[0]), *rest]
        return
    with ir.grid(*extents) as found:
        places = [found] if isinstance(found, tirx.Var) else list(found)
        yield [bind(analyzer, place, extent) for place, extent in zip(places, extents, strict=True)]


def tiles(extent: int, size: int) -> list[tuple[int, int, int]]:
    """Cut an axis: (start, how many, size) of the full tiles, and of the one that is left."""
    full, rest = divmod(extent, size)
    return [(0, full, size)] * bool(full) + [(full * size, 1, rest)] * bool(rest)


def shares(extent: int, size: int, unit: int = 1) -> list[tuple[int, int, int]]:
    """Cut an axis into as few parts of at most `size` as there can be, about equal, whole units each.

    Returns
    -------
    list
        (start, how many, size) of the larger and of the smaller parts, which are a unit shorter.
    """
    count = -(-(extent // unit) // max(1, size // unit))
    small, large = divmod(extent // unit, count)
    start = large * (small + 1)
    parts = [(0, large, small + 1), (start, count - large, small)]
    return [(first * unit, many, each * unit) for first, many, each in parts if many]


def places(index: Expr, extents: Sequence[int], analyzer: Analyzer) -> list[Expr]:
    """Return the place on every axis of the element `index` of a space in row-major order."""
    found: list[Expr] = []
    for extent in reversed(extents):
        found.insert(0, analyzer.simplify(index % extent))
        index = analyzer.simplify(index // extent)
    return found


@contextmanager
def pieces(space: Sequence[int], analyzer: Analyzer) -> Iterator[list[Expr]]:
    """Emit a parallel loop over the places of a space, the last axis the fastest; yields the place."""
    with ir.parallel(0, prod(space)) as piece:
        yield places(bind(analyzer, piece, prod(space)), space, analyzer)


class Emitter:
    """A convolution's parameters as the function under construction has them.

    Parameters
    ----------
    weight
        Shape of the packed weight.
    halo
        Zeros that are read around the input; None: all that the windows reach.
    """

    def __init__(
        self,
        read: Read,
        conv: Convolution | Transposed,
        layouts: Layouts,
        weight: Sequence[int],
        lanes: int,
        halo: Sequence[int] | None = None,
    ) -> None:
        self.read, self.conv, self.layouts, self.lanes = read, conv, layouts, lanes
        self.analyzer = Analyzer()
        self.arguments = []
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            if param.same_as(conv.weight):
                shape = tuple(weight)
            self.arguments.append(ir.arg(param.name, ir.buffer(shape, str(param.dtype))))
        self.x, self.weight, self.out = map(self._argument, (conv.x, conv.weight, read.output))
        self.dtype = str(conv.x.dtype)  # of the products; `y` may be wider
        self.zero = tirx.const(0, self.dtype)
        # Where the first window begins in the padded input.
        self.origin = tuple(
            have - need for have, need in zip(self.layout(conv.x).before, conv.pads, strict=False)
        )
        needed = zip(self.layout(conv.x).halo, conv.pads if halo is None else halo, strict=True)
        if any(have < need for have, need in needed):
            raise ValueError(f"{conv.x.name}: the halo {self.layout(conv.x).halo} is too small")

    def _argument(self, buffer: tirx.Buffer) -> tirx.Buffer:
        return self.arguments[self.read.parameter(buffer)]

    def layout(self, buffer: tirx.Buffer) -> Layout:
        """Return the layout of a packed parameter."""
        layout = self.layouts[self.read.parameter(buffer)]
        if layout is None:
            raise ValueError(f"{buffer.name} is not packed")
        return layout

    @cached_property
    def long(self) -> bool:
        """Whether what follows the sums is much code."""
        index = [tirx.Var("i", "int32") for _ in self.read.output.shape]
        total = tirx.const(0, str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        return calls(value, *WRITTEN_OUT) > 0

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Write the output at a logical index (n, c, *spatial), given the convolution's sum there."""
        total = total.astype(str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        if self.conv.co % self.lanes:  # what lies in the padding must stay zero, whatever f(0) is
            # TVM takes away a load's own condition where a Select says the same, but a Select computes
            # both sides: the load would go beyond its buffer.
            zero = tirx.const(0, str(self.out.dtype))
            keep = tirx.if_then_else if calls(value, "if_then_else") else tirx.Select
            value = keep(self.analyzer.simplify(index[1]) < self.conv.co, value, zero)
        self.store_sum(value, index)

    def store_sum(self, value: Expr, index: Sequence[Expr]) -> None:
        """Write the output at a logical index as it is: a sum may wait there for more."""
        value = value.astype(str(self.out.dtype))
        ir.buffer_store(self.out, value, self.layout(self.read.output).at(index, self.analyzer))

    def load_sum(self, total: tirx.Buffer, place: list[Expr], index: Sequence[Expr]) -> None:
        """Read what `store_sum` wrote."""
        stored = tirx.BufferLoad(self.out, self.layout(self.read.output).at(index, self.analyzer))
        ir.buffer_store(total, stored.astype(str(total.dtype)), place)

    def _load(self, buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        place = self.read.place(buffer)
        if place is None:
            return None
        layout = self.layouts[place]
        if layout is not None:
            return tirx.BufferLoad(self.arguments[place], layout.at(index, self.analyzer))
        value = tirx.BufferLoad(self.arguments[place], index)
        for each, extent in zip(index, shape_of(buffer), strict=True):
            if not self.analyzer.can_prove(each < extent):  # channels that only the padding has
                value = tirx.if_then_else(each < extent, value, tirx.const(0, str(buffer.dtype)))
        return value

    def zero_halo(self, n: Expr, block: Expr, row: Sequence[Expr]) -> None:
        """Write the zeros around one output row, see the function of that name."""
        layout = self.layout(self.read.output)
        zero_halo(self.out, layout, self.conv.out, n, block, row, self.analyzer)


def zero_halo(
    buffer: tirx.Buffer,
    layout: Layout,
    spatial: Sequence[int],
    n: Expr,
    block: Expr,
    row: Sequence[Expr],
    analyzer: Analyzer,
) -> None:
    """Write the zeros beside one row of a packed value, and beyond the first and the last row.

    Parameters
    ----------
    spatial
        Logical extents.
    row
        Place on all spatial axes but the last.
    """
    full = layout.shape((1, 1, *spatial))[2:-1]
    for axis, size in enumerate(spatial):
        for start, count, edge in (
            (0, layout.before[axis], [0] * len(spatial)),
            (layout.before[axis] + size, layout.after[axis], [each - 1 for each in spatial]),
        ):
            if count:
                ends = [tirx.EQ(row[k], edge[k]) for k in range(axis, len(row))]
                fixed = [row[k] + layout.before[k] for k in range(axis)]
                with (
                    when(tirx.all(*ends) if ends else None),
                    grid([count, *full[axis + 1 :]], analyzer) as at,
                    ir.vectorized(0, layout.lanes) as lane,
                ):
                    zero = tirx.const(0, str(buffer.dtype))
                    ir.buffer_store(
                        buffer, zero, [n, block + layout.offset, *fixed, at[0] + start, *at[1:], lane]
                    )
