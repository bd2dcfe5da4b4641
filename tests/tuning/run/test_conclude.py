"""Who judges the finalists, and what is kept of what was said."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from edge_toy.backend import POINTS

from tests.tuning.toy_run import KEY, TASK, Told, search, toy_run
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError, UsageError
from toolchain.measuring.execute import BusyError
from toolchain.records.store import RecordStore
from toolchain.rpc.lab import PORT_VARIABLE
from toolchain.tasks.tuner import Result
from toolchain.tuning import allowance
from toolchain.tuning.allowance import Allowance, RunTime, TimeUpError
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.judging.gain import gain
from toolchain.tuning.judging.judge import NetworkJudgement
from toolchain.tuning.run import conclude as concluding
from toolchain.tuning.run.conclude import (
    Alone,
    BoardJudgement,
    NetworkJudge,
    conclude,
    finalists,
    obstacle_to_network,
)

FASTER = POINTS[3]
LOCAL = find_board("local")
FREE = Allowance(0.0)


def network(
    events: list[Event], boards: tuple[str, ...] = ("local",), revive: Callable[[str], bool] = lambda _: False
) -> NetworkJudge:
    none = SimpleNamespace()
    places = [replace(LOCAL, name=name) for name in boards]
    return NetworkJudge(none, none, none, none, places, none, events.append, revive)


def test_boards_judge_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PORT_VARIABLE, raising=False)
    assert obstacle_to_network("boards", [LOCAL]) == ""
    assert "--runner model" in obstacle_to_network("model", [LOCAL])
    assert "a simulation computes there" in obstacle_to_network("boards", [LOCAL], modelled=True)
    assert "emulated" in obstacle_to_network("boards", [replace(LOCAL, emulated=True)])
    monkeypatch.setenv(PORT_VARIABLE, "9190")
    assert "--engine host" in obstacle_to_network("boards", [LOCAL])


def test_the_judge_ends_when_the_users_time_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(allowance, "time", SimpleNamespace(monotonic=lambda: now))
    begun = now - 300
    assert RunTime(400, begun).conclusion() == Allowance(begun + 400, firm=True)
    free = RunTime(None, begun)
    assert free.conclusion().left_s == pytest.approx(100) and not free.conclusion().firm
    assert free.search() is free.defaults() is None
    assert RunTime().conclusion().left_s == pytest.approx(60)


def test_the_search_leaves_time_for_comparing_the_fastest() -> None:
    given = RunTime(400, begun=0.0)
    assert given.search() == Allowance(300.0, firm=True)
    assert given.defaults() == Allowance(150.0, firm=True), "and the defaults leave time for the search"


def test_a_winner_keeps_its_time_of_one_call_in_the_network(store: RecordStore) -> None:
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        own = finalists(run)
        times = ([4.0, 4.2], [6.0, 6.2])
        faster = gain([10.0] * 3, [8.0] * 3)
        said = NetworkJudgement({TASK.workload: 1}, {TASK.workload: times}, 10.0, 8.0, faster)
        tuned = run.settle(own, BoardJudgement(said, "b").of(TASK, own))
    assert TASK.weight == 2 and tuned.choice.run_ms == (2.0, 2.1)
    assert tuned.default_ms == pytest.approx(3.05) and tuned.won == run.space.rule(FASTER)
    best = store.best(KEY, ("toy",))
    assert best is not None and best.confirmed and best.provenance.board == "b"


def test_without_candidates_the_defaults_are_kept_and_nobody_is_asked(store: RecordStore) -> None:
    events: list[Event] = []
    with toy_run(store, Told({point: 2.0 for point in POINTS[1:]}), fresh=True) as run:
        search(run, 4)
        ((tuned,), said) = conclude([run], network(events), "", FREE)
    assert tuned.won == "default" and said is None and tuned.choice.confirmed


def test_with_an_obstacle_finalists_are_measured_alone_and_it_is_said(store: RecordStore) -> None:
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        ((tuned,), said) = conclude([run], network(events), "the model runs no networks", FREE)
    assert tuned.won == run.space.rule(FASTER) and said is None
    assert any(isinstance(event, Notice) and "runs no networks" in event.text for event in events)


@pytest.mark.slow
def test_where_all_finalists_fail_builds_use_what_was_measured_before(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        stored = store.all()
        broken = [Result(failure="runtime", message="the GPU was reset")] * 9
        monkeypatch.setattr(
            run.context.evaluator.runner, "compare", lambda _task, built, most: [broken[: len(built)]] * most
        )
        ((tuned,), said) = conclude([run], network(events), "the model runs no networks", FREE)
    assert said is None and tuned.won == run.space.rule(FASTER) and tuned.choice in stored
    assert store.all() == stored, "no record says that a choice was confirmed"
    told = [event.text for event in events if isinstance(event, Notice)]
    assert "all finalists failed when they were compared" in told[-1]


def test_a_network_without_a_reference_is_no_judge(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bench(*_arguments: object) -> SimpleNamespace:
        raise UsageError("the network computes nothing finite")

    monkeypatch.setattr(concluding, "prepare_network_bench", bench)
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        ((tuned,), judged) = conclude([run], network(events), "", FREE)
    assert judged is None and tuned.won == run.space.rule(FASTER)
    assert any(isinstance(event, Notice) and "nothing finite" in event.text for event in events)


def test_where_one_board_goes_away_the_next_judges(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def bench(*arguments: object) -> SimpleNamespace:
        asked.append(arguments[2].name)  # type: ignore[attr-defined]
        if arguments[2].name in gone:  # type: ignore[attr-defined]
            raise ToolchainError("the connection was lost")
        return SimpleNamespace()

    said = NetworkJudgement({TASK.workload: 0}, {}, 10.0, 10.0)
    monkeypatch.setattr(concluding, "prepare_network_bench", bench)
    monkeypatch.setattr(concluding, "judge", lambda *_arguments: said)
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        gone = {"a"}
        ((tuned,), judged) = conclude([run], network(events, ("a", "b")), "", FREE)
        assert judged is said and asked == ["a", "b"] and tuned.won == "default"
        assert tuned.choice.provenance.board == "b"
        gone = {"a", "b"}
        with pytest.raises(
            ToolchainError, match="could not be judged in the network: the connection"
        ) as caught:
            conclude([run], network(events, ("a", "b")), "", FREE)
    assert "what was measured is kept" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failures", "back", "order"),
    [
        ({"a": LostError}, True, ["a", "b"]),  # a board that is there is asked first
        ({"a": LostError, "b": LostError}, True, ["a", "b", "a"]),
        ({"a": ToolchainError, "b": LostError}, True, ["a", "b", "b"]),
        ({"a": BusyError, "b": LostError}, False, ["a", "b", "a"]),
        ({"a": LostError, "b": LostError}, False, ["a", "b"]),
    ],
)
def test_boards_that_come_back_are_asked_again(
    store: RecordStore,
    monkeypatch: pytest.MonkeyPatch,
    failures: dict[str, type[ToolchainError]],
    back: bool,
    order: list[str],
) -> None:
    asked: list[str] = []

    def bench(*arguments: object) -> SimpleNamespace:
        name = arguments[2].name  # type: ignore[attr-defined]
        asked.append(name)
        if name in failures and asked.count(name) == 1:
            raise failures[name]("no route to host")
        return SimpleNamespace()

    said = NetworkJudgement({TASK.workload: 0}, {}, 10.0, 10.0)
    monkeypatch.setattr(concluding, "prepare_network_bench", bench)
    monkeypatch.setattr(concluding, "judge", lambda *_arguments: said)
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        judges = network([], ("a", "b"), lambda _name: back)
        if len(order) == 2 and "b" in failures:
            with pytest.raises(ToolchainError, match="no route to host"):
                conclude([run], judges, "", FREE)
        else:
            ((tuned,), judged) = conclude([run], judges, "", FREE)
            assert judged is said and tuned.choice.provenance.board == order[-1]
    assert asked == order


def test_a_network_too_slow_for_the_users_time_is_left_out_and_it_is_said(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(*_arguments: object) -> None:
        raise TimeUpError("an inference takes 5 s", "without --time the network decides")

    monkeypatch.setattr(concluding, "prepare_network_bench", lambda *_arguments: None)
    monkeypatch.setattr(concluding, "judge", judge)
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        allowed = Allowance(time.monotonic() + 600, firm=True)
        ((tuned,), judged) = conclude([run], network(events, ("a", "b")), "", allowed)
    assert judged is None and tuned.won == run.space.rule(FASTER) and tuned.choice.confirmed
    (said,) = [event.text for event in events if isinstance(event, Notice)]
    assert said.endswith("in the network: an inference takes 5 s; without --time the network decides")


def test_without_any_time_what_was_measured_is_what_builds_take(store: RecordStore) -> None:
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        run.context.evaluator.runner.check = None  # type: ignore[method-assign, assignment]
        ((tuned,), judged) = conclude([run], network(events), "", Allowance(0.0, firm=True))
        assert judged is None and tuned.won == run.space.rule(FASTER)
    best = store.best(KEY, ("toy",))
    assert best is not None and best.digest == tuned.choice.digest and not best.confirmed
    (said,) = [event.text for event in events if isinstance(event, Notice)]
    assert "--time is over before the fastest were compared again" in said


def test_finalists_are_compared_in_as_many_rounds_as_there_is_time_for(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[int] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        own = finalists(run)
        compare = run.context.evaluator.runner.compare
        monkeypatch.setattr(
            run.context.evaluator.runner,
            "compare",
            lambda task, built, most: rounds.append(most) or compare(task, built, most),
        )
        for round_s in (1.0, 140.0, 190.0, 250.0):
            allowed = Allowance(time.monotonic() + 600, firm=True)
            checks_s = round_s * (len(own) - 1) / len(own)
            ((tuned,)) = Alone([run], [own], allowed, lambda _event: None, checks_s).compared()
            assert tuned.won == run.space.rule(FASTER)
    assert rounds == [5, 4, 3], "and the last time there was time for none"


@pytest.mark.slow
def test_a_board_that_is_away_while_finalists_are_checked_refutes_nothing(store: RecordStore) -> None:
    """Else the default would be confirmed, and every build from then on be ten times slower."""
    with toy_run(store, Told({FASTER: 0.1})) as run:
        search(run, len(POINTS))
        conclude([run], network([]), "an obstacle", RunTime().conclusion())
    events: list[Event] = []
    with toy_run(store, Told({FASTER: 0.1})) as run:
        away = Result(failure="upload", message="gone")
        runner: Any = run.context.evaluator.runner
        runner.check = lambda _task, built: [away] * len(built)
        ((tuned,), judged) = conclude([run], network(events), "an obstacle", RunTime().conclusion())
    assert judged is None and tuned.won == run.space.rule(FASTER)
    best = store.best(KEY, ("toy",))
    assert best is not None and best.confirmed and best.digest == tuned.choice.digest
    (said,) = [event.text for event in events if isinstance(event, Notice)]
    assert "no board could be reached to check what builds use today, which stays" in said
