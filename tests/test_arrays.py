"""Products of matrices have the bits that their order of sums says, whatever numpy was built with."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from toolchain.arrays import Array, Matrix, transformed

NUMBERS = st.fractions(-8, 8, max_denominator=1 << 20)
FLOATS = st.floats(-1000, 1000, width=32)


def matrices(rows: int, columns: int) -> st.SearchStrategy[Matrix]:
    row = st.lists(NUMBERS, min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows)


def by_hand(value: Array, left: Matrix, right: Matrix) -> Array:
    """Return left X right^T by Python's doubles, a sum after the other."""
    half = [
        [in_order([float(number) for number in row], column) for column in value.T.tolist()] for row in left
    ]
    return np.array(
        [[in_order([float(number) for number in row], each) for row in right] for each in half], np.float32
    )


def in_order(row: list[float], numbers: list[float]) -> float:
    total = row[0] * numbers[0]
    for factor, number in zip(row[1:], numbers[1:], strict=True):
        total += factor * number
    return total


@given(arrays.arrays(np.float32, (2, 3, 4), elements=FLOATS), matrices(5, 3), matrices(2, 4))
def test_sums_are_in_the_order_of_the_taps(value: Array, left: Matrix, right: Matrix) -> None:
    made = transformed(value, left, right)
    assert made.dtype == np.float32 and made.shape == (2, 5, 2)
    assert made.tobytes() == np.stack([by_hand(each, left, right) for each in value]).tobytes()


def test_any_number_of_matrices() -> None:
    """Many are computed a part at a time."""
    value = np.arange(40000 * 2, dtype=np.float32).reshape(200, 200, 1, 2)
    half = [[Fraction(1, 2), Fraction(-1, 2)]]
    assert np.array_equal(
        transformed(value, [[Fraction(2)]], half), np.full((200, 200, 1, 1), -1, np.float32)
    )
    assert transformed(value[:0], [[Fraction(2)]], half).shape == (0, 200, 1, 1)
    assert transformed(value[0, 0], [[Fraction(2)]], half).tolist() == [[-1.0]]


def test_bytes_become_floats() -> None:
    value = np.array([[-128, 127]], np.int8)
    assert transformed(value, [[Fraction(1)]], [[Fraction(1, 4), Fraction(1)]]).tolist() == [[95.0]]
