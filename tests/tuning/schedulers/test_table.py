"""What holds of every scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tuning.schedulers.simulated import Simulated, falling, prospects, spend
from toolchain.tuning.schedulers.scheduler import SCHEDULERS, Turn

TASKS = st.lists(
    st.builds(
        Simulated,
        weight=st.integers(1, 9),
        best_ms=st.builds(falling, st.floats(0.01, 10), st.floats(0, 0.01), st.floats(0.1, 50)),
        size=st.none() | st.integers(0, 40),
    ),
    max_size=6,
)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(tasks=TASKS, trials=st.integers(1, 120), batch=st.integers(1, 16), in_flight=st.integers(1, 4))
def test_every_trial_is_given_out_if_there_is_anything_left_to_try(
    name: str, tasks: list[Simulated], trials: int, batch: int, in_flight: int
) -> None:
    used, _turns = spend(SCHEDULERS[name](trials, prospects(tasks), None), tasks, batch, in_flight)
    sizes = [trials if task.size is None else task.size for task in tasks]
    assert sum(used) == min(trials, sum(sizes))
    assert all(took <= size for took, size in zip(used, sizes, strict=True))


@pytest.mark.parametrize("name", SCHEDULERS)
@given(
    lefts=st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=5),
    trials=st.integers(1, 60),
    patience=st.none() | st.integers(1, 20),
    moves=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9), st.floats(0.1, 9)), max_size=60),
)
def test_what_is_used_and_what_is_out_never_exceed_the_trials(
    name: str,
    lefts: list[int | None],
    trials: int,
    patience: int | None,
    moves: list[tuple[int, int, float]],
) -> None:
    tasks = [Simulated(1, lambda _trials: 10.0, left) for left in lefts]
    scheduler = SCHEDULERS[name](trials, prospects(tasks), patience)
    out: list[Turn] = []
    used = 0
    for batch, take, best_ms in moves:  # give a turn out, and take any back, used up in part or not at all
        if (turn := scheduler.next(batch)) is not None:
            out.append(turn)
        assert used + sum(turn.trials for turn in out) <= trials
        if take < len(out):
            back = out.pop(take)
            spent = min(take, back.trials)
            used += spent
            scheduler.report(back, spent, best_ms)


@pytest.mark.parametrize("name", SCHEDULERS)
@given(tasks=TASKS, trials=st.integers(6, 120), batch=st.integers(1, 16), in_flight=st.integers(1, 4))
def test_every_task_gets_its_first_batch_before_any_gets_a_second(
    name: str, tasks: list[Simulated], trials: int, batch: int, in_flight: int
) -> None:
    _used, turns = spend(SCHEDULERS[name](trials, prospects(tasks), None), tasks, batch, in_flight)
    some = [place for place, task in enumerate(tasks) if task.size != 0]
    assert [turn.task for turn in turns[: len(some)]] == some


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_task_that_stands_still_gets_no_more(name: str) -> None:
    tasks = [Simulated(9, lambda _trials: 5.0), Simulated(1, falling(5.0, 1.0, 500.0))]
    used, _turns = spend(SCHEDULERS[name](200, prospects(tasks), 12), tasks, batch=8)
    assert used == [12, 188]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_small_gains_add_up_to_one_that_counts(name: str) -> None:
    tasks = [Simulated(1, lambda trials: 10.0 * 0.996**trials)]  # 0.4 % with each trial
    used, _turns = spend(SCHEDULERS[name](100, prospects(tasks), 4), tasks, batch=1)
    assert used == [100]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_run_ends_when_every_task_stands_still(name: str) -> None:
    tasks = [Simulated(1, lambda _trials: 5.0), Simulated(1, lambda _trials: 7.0)]
    used, _turns = spend(SCHEDULERS[name](200, prospects(tasks), 10), tasks, batch=8)
    assert used == [10, 10]
