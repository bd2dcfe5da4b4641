"""The parts that generators of convolutions share: parameters, epilogue, halo."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout, Layouts
from toolchain.backends.packed.loops.elementary import WRITTEN_OUT
from toolchain.backends.packed.loops.halo import zero_halo, zero_halo_of_tile
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.widened import widened
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.expressions import calls, epilogue
from toolchain.backends.packed.recognise.read import Expr, Read, shape_of
from toolchain.backends.packed.recognise.transposed import Transposed


class Emitter:
    """The parameters of a convolution in the generated function, and functions that emit its output.

    Parameters
    ----------
    weight
        Shape of the packed weight.
    halo
        Zeros that are read around the input; None for the convolution's whole padding.
    """

    def __init__(
        self,
        nest: Nest,
        read: Read,
        conv: Convolution | Transposed,
        layouts: Layouts,
        weight: Sequence[int],
        halo: Sequence[int] | None = None,
    ) -> None:
        self.nest, self.read, self.conv, self.layouts = nest, read, conv, layouts
        self.lanes, self.analyzer = nest.machine.lanes, nest.analyzer
        self.arguments = []
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            dtype = str(param.dtype)
            if param.same_as(conv.weight):
                shape = tuple(weight)
                dtype = nest.machine.products_of(conv.dtype).stored or dtype
            self.arguments.append(ir.arg(param.name, ir.buffer(shape, dtype)))
        self.x, self.weight, self.out = map(self._argument, (conv.x, conv.weight, read.output))
        self.dtype = conv.dtype  # of the products; `y` may be wider
        self.zero = tirx.const(0, self.dtype)
        # Position of the first window in the padded input.
        self.origin = tuple(
            have - need for have, need in zip(self.layout(conv.x).before, conv.pads, strict=False)
        )
        needed = zip(self.layout(conv.x).halo, conv.pads if halo is None else halo, strict=True)
        if any(have < need for have, need in needed):
            raise ValueError(f"{conv.x.name}: the halo {self.layout(conv.x).halo} is too small")

    def widen(self) -> None:
        """Emit the conversion of all inputs, if the instruction takes wider ones."""
        wider = self.nest.machine.products_of(self.dtype).widened
        if wider:
            self.x = widened(self.nest, self.x, wider)

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
        """Whether the epilogue (operators after the sum) has a function that becomes long code."""
        index = [tirx.Var("i", "int32") for _ in self.read.output.shape]
        total = tirx.const(0, str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        return calls(value, *WRITTEN_OUT) > 0

    def store(self, total: Expr, index: Sequence[Expr]) -> None:
        """Emit the output at a logical index (n, c, *spatial), given the convolution's sum there."""
        total = total.astype(str(self.conv.y.dtype))
        value = epilogue(self.read, self.conv.y, total, index, self._load, self.analyzer)
        if self.conv.co % self.lanes:  # padding channels must stay zero, whatever f(0) is
            # TVM removes a load's own condition if a Select has the same one; but a Select computes both
            # sides, so the load would exceed its buffer.
            zero = tirx.const(0, str(self.out.dtype))
            keep = tirx.if_then_else if calls(value, "if_then_else") else tirx.Select
            value = keep(self.analyzer.simplify(index[1]) < self.conv.co, value, zero)
        self.store_sum(value, index)

    def store_sum(self, value: Expr, index: Sequence[Expr]) -> None:
        """Emit a store to the output at a logical index, without epilogue; partial sums may wait there."""
        value = value.astype(str(self.out.dtype))
        ir.buffer_store(self.out, value, self.layout(self.read.output).at(index, self.analyzer))

    def load_sum(self, total: tirx.Buffer, place: list[Expr], index: Sequence[Expr]) -> None:
        """Emit the load of a partial sum that `store_sum` stored."""
        stored = tirx.BufferLoad(self.out, self.layout(self.read.output).at(index, self.analyzer))
        ir.buffer_store(total, stored.astype(str(total.dtype)), place)

    def _load(self, buffer: tirx.Buffer, index: list[Expr]) -> Expr | None:
        place = self.read.place(buffer)
        if place is None:
            return None
        layout = self.layouts[place]
        if layout is not None:
            return tirx.BufferLoad(self.arguments[place], layout.at(index, self.analyzer))
        value: Expr = tirx.BufferLoad(self.arguments[place], index)
        for each, extent in zip(index, shape_of(buffer), strict=True):
            if not self.analyzer.can_prove(each < extent):  # channels that exist only as padding
                value = tirx.if_then_else(each < extent, value, tirx.const(0, str(buffer.dtype)))
        return value

    def zero_halo(self, n: Expr, block: Expr, row: Sequence[Expr]) -> None:
        """Emit the zeros around one output row, see `halo.zero_halo`."""
        layout = self.layout(self.read.output)
        zero_halo(self.nest, self.out, layout, self.conv.out, n, block, row)

    def zero_halo_of_tile(self, n: Expr, block: Expr, row: Sequence[Expr], first: Expr, columns: int) -> None:
        """Emit a tile's share of the zeros around the output, see `halo.zero_halo_of_tile`."""
        layout = self.layout(self.read.output)
        zero_halo_of_tile(self.nest, self.out, layout, self.conv.out, n, block, row, first, columns)
