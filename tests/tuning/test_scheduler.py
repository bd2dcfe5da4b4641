"""Which task gets the next trials."""

from __future__ import annotations

import pytest

from toolchain.tuning.scheduler import RoundRobin, shares


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


def test_tasks_take_turns_until_their_shares_are_used_up() -> None:
    scheduler = RoundRobin(10, [None, 2, None])
    turns = []
    while (task := scheduler.next()) is not None:
        batch = min(3, scheduler.share(task))
        turns.append((task, batch))
        scheduler.report(task, batch)
    assert turns == [(0, 3), (1, 2), (2, 3), (0, 2)]  # shares of 5, 2 and 3


def test_a_task_with_nothing_left_gets_no_other_turn() -> None:
    scheduler = RoundRobin(4, [None, None])
    assert scheduler.next() == 0
    scheduler.report(0, 0)
    assert [scheduler.next(), scheduler.share(1)] == [1, 2]
    scheduler.report(1, 2)
    assert scheduler.next() is None
