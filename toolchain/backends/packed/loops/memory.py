"""Storage of the values of a function that `stagewise` generates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout, Layouts, dense_layout
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.expressions import calls
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, shape_of

# Waking threads takes about 10 us, in which one core computes more elements than this.
SMALL = 1 << 14
CALL = 10  # cost of an intrinsic such as exp in plain operations


class FunctionStorage:
    """The parameters of a function and its intermediate buffers; declares the parameters."""

    def __init__(self, nest: Nest, read: Read, layouts: Layouts) -> None:
        self.nest, self.read = nest, read
        self.lanes, self.analyzer = nest.machine.lanes, nest.analyzer
        self._stored: list[tuple[tirx.Buffer, tirx.Buffer, Layout | None]] = []
        self._channels = {
            shape_of(param)[:2] for param, each in zip(read.params, layouts, strict=True) if each
        }
        for param, layout in zip(read.params, layouts, strict=True):
            shape = shape_of(param) if layout is None else layout.shape(shape_of(param))
            self._stored.append((param, ir.arg(param.name, ir.buffer(shape, str(param.dtype))), layout))

    def allocate(self, buffer: tirx.Buffer, *, packs: bool = True) -> None:
        """Allocate a buffer for a value inside the function; `packs` allows it to be packed."""
        shape = shape_of(buffer)
        layout = None
        if packs and shape[:2] in self._channels and len(shape) >= 3 and prod(shape[2:]) > 1:
            layout = dense_layout(self.lanes, len(shape))
        extents = shape if layout is None else layout.shape(shape)
        self._stored.append((buffer, self.nest.shared(extents, str(buffer.dtype)), layout))

    def where(self, buffer: tirx.Buffer) -> tuple[tirx.Buffer, Layout | None] | None:
        """Return the buffer and layout of a stored value; None if the value is computed for every read."""
        return next(((new, layout) for own, new, layout in self._stored if own.same_as(buffer)), None)

    def targets(self, stage: Stage) -> tuple[list[tirx.Buffer], Layout | None]:
        """Return the buffers of the parts of a stored stage, and their common layout."""
        found = [self.where(part.buffer) for part in stage.parts]
        buffers = [each[0] for each in found if each is not None]
        layouts = {each[1] for each in found if each is not None}
        if len(buffers) != len(stage.parts) or len(layouts) != 1:
            raise UnreadableError(f"block {stage.name} stores values in several layouts")
        return buffers, layouts.pop()

    def load(self, buffer: tirx.Buffer, index: list[Expr], analyzer: Analyzer) -> Expr | None:
        """Return the stored element at a logical index; None if the value is not stored."""
        found = self.where(buffer)
        if found is None:
            return None
        new, layout = found
        return tirx.BufferLoad(new, index if layout is None else layout.at(index, analyzer))

    @contextmanager
    def pieces(self, space: Sequence[int], stage: Stage) -> Iterator[list[Expr]]:
        """Emit a loop over independent pieces of a stage; yield the place of a piece in `space`."""
        cost = sum(1 + CALL * calls(part.value) for part in stage.parts)
        small = prod(stage.extents) * cost < SMALL
        with self.nest.pieces(space, small=small) as place:
            yield place
