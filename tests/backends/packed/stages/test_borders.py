"""Where padding is read, and where another operand begins: the loops there are cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from tvm import te, topi
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.layout import dense_layout
from toolchain.backends.packed.loops.emitter import FunctionStorage
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.read import read, shape_of
from toolchain.backends.packed.stages.blocks import Box, conditions, interior, segments
from toolchain.backends.packed.stages.value import StageValue

LANES = AVX2.lanes
Found = TypeVar("Found")


def asked(given: Sequence[te.Tensor], out: te.Tensor, ask: Callable[[StageValue, Box], Found]) -> Found:
    """Return what `ask` says of the first stage that a function stores, and of its whole output."""
    answers = []

    def body(nest: Nest) -> None:
        found = read(te.create_prim_func([*given, out]))
        memory = FunctionStorage(
            nest, found, [dense_layout(LANES, len(param.shape)) for param in found.params]
        )
        stage = found.producer(found.output)
        assert stage is not None
        _, channels, *spatial = shape_of(found.output)
        box = [(0, -(-channels // LANES)), *((0, extent) for extent in spatial)]
        answers.append(ask(StageValue(memory, stage), box))
        ir.evaluate(0)

    build(AVX2, body)
    return answers[0]


def pool(
    size: tuple[int, ...], kernel: int, stride: int, before: int, after: int
) -> tuple[te.Tensor, te.Tensor]:
    x = te.placeholder((1, 16, *size), name="x")
    rank = len(size)
    made = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}[rank]
    pads = [before] * rank + [after] * rank
    layout = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]
    return x, made(x, [kernel] * rank, [stride] * rank, [1] * rank, pads, "max", False, layout)


def reads_padding(place: int, size: int, kernel: int, stride: int, before: int) -> bool:
    first = place * stride - before
    return first < 0 or first + kernel > size


@pytest.mark.slow
@pytest.mark.parametrize("size", [(9, 11), (12, 7), (8,), (7, 8, 9)])
@pytest.mark.parametrize(
    ("kernel", "stride", "before", "after"),
    [(3, 1, 1, 1), (3, 2, 1, 1), (2, 2, 0, 1), (5, 1, 2, 2), (3, 1, 2, 0)],
)
def test_inside_no_padding_is_read_and_at_its_edges_some_is(
    size: tuple[int, ...], kernel: int, stride: int, before: int, after: int
) -> None:
    x, out = pool(size, kernel, stride, before, after)
    extents = [int(extent) for extent in out.shape][2:]
    rows, columns = asked([x], out, lambda value, box: interior(value, box, LANES))
    for extent, own, (start, end) in zip(extents, size, [*rows, columns], strict=True):
        inside = [not reads_padding(place, own, kernel, stride, before) for place in range(extent)]
        assert all(inside[start:end]) and start < end
        assert not any(inside[:start]) and not any(inside[end:]), "no more is cut off than has to be"


def test_without_padding_all_is_inside() -> None:
    x, out = pool((6, 7), 2, 1, 0, 0)
    rows, columns = asked([x], out, lambda value, box: interior(value, box, LANES))
    assert (list(rows), columns) == ([(0, 5)], (0, 6))
    assert asked([x], out, lambda value, box: conditions(value, box, LANES)) == 0


def test_conditions_are_counted_where_they_are() -> None:
    x, out = pool((9, 9), 3, 1, 1, 1)
    blocks = (0, 2)
    for box, padded in (
        ([blocks, (0, 9), (0, 9)], True),
        ([blocks, (1, 8), (1, 8)], False),
        ([blocks, (0, 1), (1, 8)], True),
        ([blocks, (1, 8), (8, 9)], True),
    ):
        count = asked([x], out, lambda value, _, box=box: conditions(value, box, LANES))  # type: ignore[misc]
        assert (count > 0) == padded, box


def joined(*blocks: int) -> tuple[list[te.Tensor], te.Tensor]:
    parts = [te.placeholder((1, LANES * each, 4, 4), name=f"x{at}") for at, each in enumerate(blocks)]
    return parts, topi.concatenate(parts, 1)


@pytest.mark.parametrize(
    ("blocks", "cuts"),
    [((1, 1), [(0, 1), (1, 2)]), ((2, 1, 3), [(0, 2), (2, 3), (3, 6)]), ((3, 2), [(0, 3), (3, 5)])],
)
def test_a_concatenation_is_cut_where_an_operand_begins(
    blocks: tuple[int, ...], cuts: list[tuple[int, int]]
) -> None:
    parts, out = joined(*blocks)
    assert asked(parts, out, lambda value, box: segments(value, box, LANES)) == cuts


def test_nothing_is_cut_where_nothing_is_joined() -> None:
    x = te.placeholder((1, 4 * LANES, 4, 4), name="x")
    assert asked([x], topi.nn.relu(x), lambda value, box: segments(value, box, LANES)) == [(0, 4)]
    (one, other), out = joined(1, 1)
    small = topi.strided_slice(out, [0, 0], [1, LANES])
    assert asked([one, other], small, lambda value, box: segments(value, box, LANES)) == [(0, 1)]
