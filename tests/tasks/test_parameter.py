"""What a candidate is called with, as it lies in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolchain.arrays import Array
from toolchain.tasks.parameter import Parameter


class Turned:
    """A layout: the last value first."""

    def pack(self, value: Array) -> Array:
        return value[::-1].copy()

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        return value[::-1].reshape(logical)


VALUE = np.arange(4, dtype=np.float32)


def test_a_constant_stays_as_it_lies() -> None:
    assert Parameter((4,), "float32", Turned(), VALUE).filled(VALUE + 1) is VALUE


def test_a_value_is_packed_and_comes_back() -> None:
    parameter = Parameter((4,), "float32", Turned())
    assert np.array_equal(parameter.filled(VALUE), VALUE[::-1])
    assert np.array_equal(parameter.logical(parameter.filled(VALUE)), VALUE)
    assert np.array_equal(Parameter((4,), "float32").filled(VALUE), VALUE)


def test_an_output_before_it_is_written_holds_nothing_to_rely_on() -> None:
    assert np.isnan(Parameter((4,), "float16").filled(None)).all()
    assert not Parameter((4,), "int32").filled(None).any()
