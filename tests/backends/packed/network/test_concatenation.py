"""Concatenations whose operands can be computed in their places: whole blocks of channels alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tirx, topi

from toolchain.backends.packed.network.concatenation import operands
from toolchain.backends.packed.recognise.read import read

SPATIAL = (3, 4)


def inputs(channels: Sequence[int], batch: int = 1, spatial: Sequence[int] = SPATIAL) -> list[te.Tensor]:
    return [te.placeholder((batch, each, *spatial), name=f"x{at}") for at, each in enumerate(channels)]


def found(given: Sequence[te.Tensor], out: te.Tensor, lanes: int = 8) -> list[tuple[int, int]] | None:
    return operands(read(te.create_prim_func([*given, out])), lanes)


@settings(max_examples=20)
@given(
    blocks=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    last=st.integers(1, 20),
    batch=st.integers(1, 2),
    spatial=st.lists(st.integers(1, 3), max_size=3),
    data=st.data(),
)
def test_each_operand_begins_where_those_before_it_end(
    blocks: list[int], last: int, batch: int, spatial: list[int], data: st.DataObject
) -> None:
    """Only the last may end inside a block; the function's parameters are in any order."""
    parts = inputs([*(8 * each for each in blocks), last], batch, spatial)
    order = data.draw(st.permutations(range(len(parts))))
    places = {number: place for place, number in enumerate(order)}
    expected = [(places[number], sum(blocks[:number])) for number in range(len(parts))]
    assert found([parts[number] for number in order], topi.concatenate(parts, 1)) == expected


def test_one_inside_that_fills_no_block_needs_a_pass_of_its_own() -> None:
    parts = inputs([8, 12, 8])
    assert found(parts, topi.concatenate(parts, 1)) is None
    assert found(parts, topi.concatenate(parts, 1), lanes=4) == [(0, 0), (1, 2), (2, 5)]


def shuffled(x: te.Tensor) -> te.Tensor:
    """Exchange all channels but the first and the last."""
    last = int(x.shape[1]) - 1
    ends = lambda c: tirx.any(c == 0, c == last)  # noqa: E731
    return te.compute(x.shape, lambda n, c, *rest: x[(n, tirx.Select(ends(c), c, last - c), *rest)])


Make = Callable[[list[te.Tensor]], te.Tensor]
OTHERS: dict[str, Make] = {
    "along rows": lambda x: topi.concatenate(x, 2),
    "then computed": lambda x: topi.nn.relu(topi.concatenate(x, 1)),
    "of something computed": lambda x: topi.concatenate([topi.negative(x[0]), x[1]], 1),
    "of a part": lambda x: topi.concatenate([topi.strided_slice(x[0], [0, 8], [1, 16]), x[1]], 1),
    "of one turned around": lambda x: topi.concatenate([topi.flip(x[0], 1), x[1]], 1),
    "of one with channels shuffled": lambda x: topi.concatenate([shuffled(x[0]), x[1]], 1),
    "of one with a column repeated": lambda x: topi.concatenate(
        [topi.take(x[0], te.compute((4,), lambda i: i * 0 + 2), 3), x[1]], 1
    ),
    "of one moved": lambda x: topi.concatenate([topi.flip(x[0], 3), x[1]], 1),
    "a sum": lambda x: topi.add(x[0], x[1]),
    "a reduction": lambda x: topi.sum(topi.concatenate(x, 1), 1, keepdims=True),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_more_or_less_is_none(name: str) -> None:
    parts = inputs([16, 16])
    assert found(parts, OTHERS[name](parts)) is None


def test_one_value_twice_is_none() -> None:
    """It cannot be computed at two places at once."""
    (x,) = inputs([8])
    assert found([x], topi.concatenate([x, x], 1)) is None
