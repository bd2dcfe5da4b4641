"""Parts of outputs: those that are joined, and channels that differ in size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolchain.models.deviation import ArrayPart, divide, part_at, part_scales, parts_of

MOST = 64


def indices(part: ArrayPart) -> Iterator[tuple[int, ...]]:
    return product(*(range(begin, end) for begin, end in part.bounds))


def test_every_tensor_that_is_joined_is_a_part() -> None:
    values = np.ones((1, 12, 6), np.float32)
    assert parts_of(values, {1: (4, 12)}, MOST) == {1: (4, 12)}
    assert parts_of(values, None, MOST) == {}


def test_channels_that_differ_in_size_are_parts() -> None:
    values = np.random.default_rng(0).uniform(0.5, 1, (1, 84, 100))
    values[:, :4] *= 640
    assert parts_of(values, None, MOST) == {1: (4, 84)}
    values[:, :4] /= 100
    assert parts_of(values, None, MOST) == {}, "a factor of less than 100"


def test_ignores_channels_with_few_values() -> None:
    logits = np.random.default_rng(0).normal(size=(1, 1000))
    assert np.abs(logits).max() > 1000 * np.abs(logits).min()
    assert parts_of(logits, None, MOST) == {}


def test_merges_similar_parts_beyond_the_limit() -> None:
    values = np.concatenate([np.full((1, 4), size) for size in (1, 1.1, 100, 101, 1000)], axis=1)
    assert parts_of(values, {1: (4, 8, 12, 16, 20)}, 3) == {1: (8, 16, 20)}


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4).flatmap(
        lambda shape: st.tuples(st.just(shape), st.tuples(*(st.sets(st.integers(1, s)) for s in shape)))
    ),
    st.integers(1, 64),
)
def test_a_value_of_any_part_is_relative_to_that_part(
    shaped: tuple[list[int], tuple[set[int], ...]], most: int
) -> None:
    shape, inner = shaped
    values = np.random.default_rng(1).uniform(0.5, 2, shape)
    joined = {axis: (*sorted(at - {shape[axis]}), shape[axis]) for axis, at in enumerate(inner)}
    ends = parts_of(values, joined, most)
    assert np.prod([len(each) for each in ends.values()], initial=1) <= most
    scales = np.broadcast_to(part_scales(values, ends), values.shape)
    for part in divide(shape, ends):
        assert (scales[part.slices] == values[part.slices].max()).all()
        assert all(part_at(index, shape, ends) == part for index in indices(part))


def test_a_part_is_written_as_python_slices_an_array() -> None:
    array = np.arange(840).reshape(1, 84, 10)
    boxes, scores = divide(array.shape, {1: (4, 84)})
    assert (str(boxes), str(scores)) == ("[:, 0:4]", "[:, 4:84]")
    np.testing.assert_array_equal(array[scores.slices], array[:, 4:84])
    assert [str(part) for part in divide((4, 3), {1: (1, 3), 0: (2, 4)})][-1] == "[2:4, 1:3]"


def test_whole_array_prints_empty() -> None:
    (whole,) = divide((2, 3), {})
    assert str(whole) == "" and whole.slices == (slice(0, 2), slice(0, 3))
    (scalar,) = divide((), {})
    assert str(scalar) == "" and scalar.slices == ()
