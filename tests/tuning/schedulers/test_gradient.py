"""Trials go where they save most."""

from __future__ import annotations

import pytest

from tests.tuning.schedulers.simulated import Simulated, falling, network_ms, prospects, spend
from toolchain.tuning.schedulers.scheduler import Gradient, RoundRobin, Turn

NETWORKS = {
    "one heavy task": [Simulated(1, falling(40, 4, 60)), *[Simulated(1, falling(1, 0.2, 10))] * 7],
    "weights": [Simulated(16, falling(2, 1, 80)), *[Simulated(1, falling(2, 1, 80))] * 9],
    "defaults that are the best": [
        *[Simulated(1, lambda _trials: 10.0)] * 3,
        *[Simulated(1, falling(10, 2, 60))] * 3,
    ],
    "a network's tail": [
        Simulated(1 + place % 3, falling(32 / 2**place, 8 / 2**place, 30)) for place in range(10)
    ],
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("in_flight", [1, 3])
def test_the_network_gets_faster_than_by_turns(name: str, in_flight: int) -> None:
    tasks = NETWORKS[name]
    times = {}
    for make in (Gradient, RoundRobin):
        used, _turns = spend(make(320, prospects(tasks)), tasks, 8, in_flight)
        assert sum(used) == 320
        times[make] = network_ms(tasks, used)
    assert times[Gradient] < times[RoundRobin]


def test_tasks_that_are_alike_get_about_the_same() -> None:
    tasks = [Simulated(1, falling(8, 2, 40))] * 5
    used, _turns = spend(Gradient(400, prospects(tasks)), tasks, 8)
    assert max(used) - min(used) <= 8


def test_first_batches_leave_half_of_the_trials_to_be_directed() -> None:
    tasks = [Simulated(100, falling(50, 5, 200)), *[Simulated(1, lambda _trials: 0.1)] * 15]
    used, turns = spend(Gradient(64, prospects(tasks)), tasks, 8)
    assert [turn.trials for turn in turns[:16]] == [2] * 16
    assert used == [34, *[2] * 15]


def test_with_fewer_trials_than_tasks_the_first_tasks_get_one() -> None:
    tasks = [Simulated(1, falling(8, 2, 40))] * 5
    _used, turns = spend(Gradient(3, prospects(tasks)), tasks, 8)
    assert turns == [Turn(0, 1), Turn(1, 1), Turn(2, 1)]


def test_a_turn_that_is_out_makes_room_for_others() -> None:
    tasks = [Simulated(1, falling(9, 2, 40)), Simulated(1, falling(8, 2, 40))]
    scheduler = Gradient(100, prospects(tasks))
    given = [scheduler.next(8) for _ in range(4)]
    assert [turn.task for turn in given if turn] == [0, 1, 0, 1]


def test_an_exhausted_space_drops_out() -> None:
    tasks = [Simulated(50, falling(9, 2, 40), size=10), Simulated(1, falling(8, 2, 40))]
    used, _turns = spend(Gradient(100, prospects(tasks)), tasks, 8)
    assert used == [10, 90]
