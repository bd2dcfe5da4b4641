"""The trials of a run are given out once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolchain.tuning.schedulers.scheduler import Pot, Prospect, shares


@pytest.mark.parametrize(
    ("trials", "sizes", "given"),
    [
        (10, [None, None], [5, 5]),
        (11, [None, None, None], [4, 4, 3]),
        (10, [0, 2, None], [0, 2, 8]),
        (10, [1, 2, 3], [1, 2, 3]),
        (2, [None, None, None], [1, 1, 0]),
        (5, [], []),
    ],
)
def test_trials_go_to_tasks_that_have_candidates(
    trials: int, sizes: list[int | None], given: list[int]
) -> None:
    assert shares(trials, sizes) == given


def test_what_is_out_counts_as_used_until_it_comes_back() -> None:
    pot = Pot(10, [Prospect(1, 1.0, None), Prospect(1, 1.0, 6)])
    turn = pot.give(1, 4)
    assert (pot.left, pot.room(0), pot.room(1)) == (6, 6, 2)
    pot.take_back(turn, 1, 1.0)
    assert (pot.left, pot.room(0), pot.room(1)) == (9, 9, 5)


def test_a_task_that_used_nothing_of_its_turn_has_nothing_left() -> None:
    pot = Pot(10, [Prospect(1, 1.0, None)] * 2)
    early, late = pot.give(0, 3), pot.give(0, 3)
    pot.take_back(late, 0, 1.0)
    assert (pot.room(0), pot.room(1)) == (0, 7)
    pot.take_back(early, 3, 1.0)
    assert (pot.room(0), pot.room(1), pot.left) == (0, 7, 7)


def test_what_is_left_is_known_without_a_look_at_every_task() -> None:
    """Each turn asks for it once for every task: with a sum over tasks a search is quadratic in them."""

    class Counted(list[int]):
        walks = 0

        def __iter__(self) -> Iterator[int]:
            Counted.walks += 1
            return super().__iter__()

    pot = Pot(1000, [Prospect(1, 1.0, None)] * 100)
    pot._used, pot._out = Counted(pot._used), Counted(pot._out)
    turns = [pot.give(task, 5) for task in range(100)]
    for turn in turns:
        pot.take_back(turn, 3, 1.0)
    assert [pot.room(task) for task in range(100)] == [pot.left] * 100 == [700] * 100
    assert Counted.walks == 0
