"""Functions that convert values between the plain layout and packed ones."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.read import Read, read
from toolchain.backends.packed.stages.stagewise import stagewise
from toolchain.backends.packed.stages.transposing import applies, transposing


def copy_function(
    shape: Sequence[int], dtype: str, source: Layout | None, target: Layout | None, machine: Machine
) -> tirx.PrimFunc:
    """Return the function that copies a value from one layout to another; None is the plain layout."""
    coarse = not machine.pieces.fine
    if coarse and source is None and target is not None and target.lanes == 1 and not target.whole:
        return _with_halo(shape, dtype, target, machine)
    layout = target if source is None else source if target is None else None
    if layout is not None and applies(shape, layout, machine):
        return transposing(shape, dtype, layout, machine, pack=source is None)
    return stagewise(_identity(shape, dtype), [source, target], machine)


def _identity(shape: Sequence[int], dtype: str) -> Read:
    source = te.placeholder(tuple(shape), dtype, name="source")
    result = te.compute(tuple(shape), lambda *place: source(*place), name="result")
    return read(te.create_prim_func([source, result]))


def _with_halo(shape: Sequence[int], dtype: str, layout: Layout, machine: Machine) -> tirx.PrimFunc:
    """Return a function that copies row by row; `stagewise` would copy single numbers with one lane."""
    full = layout.shape(shape)[:-1]
    width = shape[-1]

    def body(nest: Nest) -> None:
        source = ir.arg("source", ir.buffer(tuple(shape), dtype))
        result = ir.arg("result", ir.buffer((*full, 1), dtype))
        with nest.pieces(full[:-1]) as (n, channel, *row):
            inside = [
                tirx.all(place >= before, place < before + size)
                for place, before, size in zip(row, layout.before, shape[2:], strict=False)
            ]

            def zeros(start: int, count: int) -> None:
                if count:
                    with nest.serial(count) as column:
                        fill = tirx.const(layout.fill, dtype)
                        ir.buffer_store(result, fill, [n, channel, *row, column + start, 0])

            def copy() -> None:
                zeros(0, layout.before[-1])
                moved = [place - before for place, before in zip(row, layout.before, strict=False)]
                for start, many, size in nest.vectors(width):
                    with nest.serial(many) as step, nest.vector(size) as lane:
                        column = step * size + start + lane
                        value = source[(n, channel, *moved, column)]
                        ir.buffer_store(result, value, [n, channel, *row, column + layout.before[-1], 0])
                zeros(layout.before[-1] + width, layout.after[-1])

            if not inside:
                copy()
            else:
                with ir.If(tirx.all(*inside)):
                    with ir.Then():
                        copy()
                    with ir.Else():
                        zeros(0, full[-1])

    return build(machine, body)
