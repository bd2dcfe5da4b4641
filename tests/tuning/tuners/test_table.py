"""What holds for every tuner: each point once, none that was measured, whatever the order of results."""

from __future__ import annotations

import re
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuning.tuners.grid import TASK, Cell, Endless, Grid, measured
from toolchain.errors import UsageError
from toolchain.tasks.tuner import Result, Tuner
from toolchain.tuning.tuners.table import TUNERS, GridSearch, RandomSearch, tuner_for

pytestmark = pytest.mark.slow

COUNTED = ("xgb-knob", "ga", "gridsearch")
GRID = Grid(3, 6)
MAKERS = pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS)


def network(**tuners: Any) -> Any:
    return SimpleNamespace(tuner=next(iter(tuners), "random"), tuners=tuners)


@MAKERS
@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.lists(st.integers(1, 9), max_size=5),
    st.sets(st.sampled_from(GRID.points)),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_every_point_is_proposed_once(
    make: Any, tiles: int, most: int, batches: list[int], earlier: set[Cell], random: Random, fails: bool
) -> None:
    """Results come late, in any order; the candidates may fail."""
    space = Grid(tiles, most)
    earlier &= set(space.points)
    tuner = make(TASK, space, 1)
    tuner.learn([(space.default(), measured(space.default())), *((cell, measured(cell)) for cell in earlier)])
    proposed: list[Cell] = []
    flying: list[Cell] = []
    for count in [*batches, len(space.points)]:
        points = tuner.propose(count)
        assert len(points) <= count
        proposed += points
        flying += points
        random.shuffle(flying)
        landed, flying = flying[: count // 2 + 1], flying[count // 2 + 1 :]
        tuner.learn([(point, measured(point, 0 if fails else 4)) for point in landed])
    assert len(proposed) == len(set(proposed))
    assert set(proposed) == set(space.points) - earlier - {space.default()}
    assert tuner.propose(1) == []  # whatever is still in flight


@MAKERS
def test_proposals_follow_the_seed(make: Any) -> None:
    first, again = (searched(make(TASK, Grid(), 3), 12) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("name", [name for name in TUNERS if name != "gridsearch"])
def test_another_seed_proposes_others(name: str) -> None:
    assert searched(TUNERS[name](TASK, Grid(), 1), 12) != searched(TUNERS[name](TASK, Grid(), 2), 12)


@pytest.mark.parametrize("name", [name for name in TUNERS if name not in COUNTED])
def test_a_space_without_an_end_is_searched_until_nothing_new_comes(name: str) -> None:
    space = Endless(3, 6)
    found = searched(TUNERS[name](TASK, space, 1), 200)
    assert sorted(found) == sorted(space.points)


@pytest.mark.parametrize("name", COUNTED)
def test_a_space_that_does_not_fit_is_refused(name: str) -> None:
    plain: Any = SimpleNamespace(size=None, features=None)
    with pytest.raises(UsageError, match=rf"--tuner {name} does not fit .*task 00112233 \(loop\)") as caught:
        TUNERS[name](TASK, plain, 1)
    assert "random" in (caught.value.hint or "")


def test_a_backend_names_its_own() -> None:
    own = RandomSearch(TASK, GRID, 1)
    ours = network(own=lambda *_: own)
    assert tuner_for(ours, TASK, GRID, None, 1) is own
    assert isinstance(tuner_for(ours, TASK, GRID, "gridsearch", 1), GridSearch)


@pytest.mark.parametrize(("typed", "first"), [("xgb-knbo", "xgb-knob"), ("nosuch", "xgb"), ("owm", "own")])
def test_an_unknown_tuner_is_told_which_there_are_the_closest_first(typed: str, first: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--tuner {typed}: no tuner of this name")) as caught:
        tuner_for(network(own=RandomSearch), TASK, GRID, typed, 1)
    hint = (caught.value.hint or "").removeprefix("use one of: ")
    assert hint.split(", ")[0] == first
    assert sorted(hint.split(", ")) == sorted([*TUNERS, "own"])


def searched(tuner: Tuner[Any], trials: int, most: int = 1 << 30) -> list[Cell]:
    """Return the first proposals of a search, in batches of four."""
    found: list[Cell] = []
    while len(found) < trials and (points := tuner.propose(min(4, trials - len(found)))):
        tuner.learn([(point, measured(point, most)) for point in points])
        found += points
    return found


def test_what_a_machine_failed_at_is_no_fault_of_the_candidate() -> None:
    tuner = RandomSearch(TASK, GRID, 1)
    lost, bad = GRID.points[:2]
    tuner.learn([(lost, Result(failure="upload")), (bad, Result(failure="wrong result"))])
    assert lost not in tuner.times
    assert tuner.times[bad] > 1e9
    assert not {lost, bad} & set(searched(tuner, 100))
