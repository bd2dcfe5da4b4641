"""Every task gets the same."""

from __future__ import annotations

from toolchain.tuning.schedulers.scheduler import Prospect, RoundRobin, Turn


def test_tasks_take_turns_until_their_shares_are_used_up() -> None:
    scheduler = RoundRobin(10, [Prospect(1, 1.0, left) for left in (None, 2, None)])
    turns = []
    while (turn := scheduler.next(3)) is not None:
        turns.append(turn)
        scheduler.report(turn, turn.trials, best_ms=1.0)
    assert turns == [Turn(0, 3), Turn(1, 2), Turn(2, 3), Turn(0, 2)]  # shares of 5, 2 and 3


def test_what_a_task_cannot_use_goes_to_the_others() -> None:
    scheduler = RoundRobin(4, [Prospect(1, 1.0, None)] * 2)
    first = scheduler.next(8)
    assert first == Turn(0, 2)
    second = scheduler.next(8)
    assert second == Turn(1, 2)
    assert scheduler.next(8) is None, "everything is out"
    scheduler.report(first, 0, best_ms=1.0)
    assert scheduler.next(8) == Turn(1, 2)
