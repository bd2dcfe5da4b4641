"""Tuners that know any space: every point once, none that was measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toy.backend import POINTS, Product, Tiles, ToySpace
from toolchain.errors import UsageError
from toolchain.tasks.tuner import Result, Tuner
from toolchain.tuning.tuners.gridsearch import GridSearch
from toolchain.tuning.tuners.random import RandomSearch
from toolchain.tuning.tuners.table import TUNERS, tuner_for

TASK = Product("0011223344556677", "matmul", 1, 1, ((4, 4), (4, 4), (4, 4)))


class Endless(ToySpace):
    """The same points, not to be counted."""

    size: Any = None


def drained(tuner: Tuner, batches: list[int]) -> list[Tiles]:
    found: list[Tiles] = []
    for count in batches:
        points = tuner.propose(count)
        assert len(points) <= count
        tuner.learn([(point, Result((1.0,))) for point in points])
        found += points
    return found


@pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)
@given(st.lists(st.integers(1, 7), min_size=18, max_size=18), st.sets(st.sampled_from(POINTS)))
def test_every_point_is_proposed_once(make: Any, batches: list[int], measured: set[Tiles]) -> None:
    tuner = make(TASK, ToySpace(TASK), 1)
    tuner.learn([(point, Result((1.0,))) for point in measured])
    found = drained(tuner, batches)
    assert len(found) == len(set(found))
    assert set(found) == set(POINTS) - measured
    assert tuner.propose(1) == []


def test_gridsearch_keeps_the_order() -> None:
    assert GridSearch(TASK, ToySpace(TASK), 1).propose(5) == POINTS[:5]


def test_random_follows_the_seed() -> None:
    first, again, other = (RandomSearch(TASK, ToySpace(TASK), seed).propose(9) for seed in (1, 1, 2))
    assert first == again != other


def test_a_space_without_an_end_is_drawn_from_until_nothing_new_comes() -> None:
    found = drained(RandomSearch(TASK, Endless(TASK), 1), [5] * 10)
    assert sorted(map(str, found)) == sorted(map(str, POINTS))


def test_gridsearch_refuses_a_space_without_an_end() -> None:
    with pytest.raises(UsageError, match=r"--tuner gridsearch: .*task 00112233 \(matmul\)") as caught:
        GridSearch(TASK, Endless(TASK), 1)
    assert "random" in (caught.value.hint or "")


def test_a_backend_names_its_own() -> None:
    own = RandomSearch(TASK, ToySpace(TASK), 1)
    network: Any = SimpleNamespace(tuner="own", tuners={"own": lambda *_: own})
    assert tuner_for(network, TASK, ToySpace(TASK), None, 1) is own
    assert isinstance(tuner_for(network, TASK, ToySpace(TASK), "gridsearch", 1), GridSearch)
    with pytest.raises(UsageError, match="--tuner nosuch") as caught:
        tuner_for(network, TASK, ToySpace(TASK), "nosuch", 1)
    assert all(name in (caught.value.hint or "") for name in ("gridsearch", "random", "own"))
