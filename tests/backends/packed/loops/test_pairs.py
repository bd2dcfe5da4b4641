"""Words that are multiplied in pairs are loaded in vectors, which read nothing outside of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolchain.backends.packed.loops.nest import vectors

STEPS = st.lists(st.integers(1, 9), max_size=12)


def offsets(steps: list[int]) -> list[int]:
    return [sum(steps[:count]) for count in range(len(steps) + 1)]


@given(STEPS)
def test_each_word_is_in_one_vector_and_no_vector_exceeds_them(steps: list[int]) -> None:
    wanted, number = offsets(steps), 0
    for start, size, used in vectors(wanted):
        assert used >= 1 and size in (1, 2, 4)
        assert wanted[0] <= start and start + size - 1 <= wanted[-1]
        assert all(start <= each < start + size for each in wanted[number : number + used])
        number += used
    assert number == len(wanted)


def test_neighbouring_columns_take_one_load_and_those_of_a_stride_two() -> None:
    assert vectors([0, 1, 2, 3]) == [(0, 4, 4)]
    assert vectors([0, 2, 4, 6]) == [(0, 4, 2), (3, 4, 2)]
    assert vectors([0, 1, 2]) == [(0, 2, 2), (2, 1, 1)]
    assert vectors([0, 5]) == [(0, 1, 1), (5, 1, 1)]
