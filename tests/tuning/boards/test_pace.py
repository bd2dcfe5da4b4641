"""How long a run may take, from what earlier ones took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.tuning.runs import CONV, DENSE
from tests.records.samples import KEY, PROVENANCE
from tests.tuning.toy_run import TASK
from toolchain.boards.inventory.lookup import find_board
from toolchain.records.exchange import Function
from toolchain.records.record import Record, RecordKey
from toolchain.records.sqlite import SqliteFile
from toolchain.records.store import RecordStore
from toolchain.tuning.boards.pace import Pace, longest_pace, trial_limit_s, usual_pace
from toolchain.tuning.boards.pace import earlier_pace as paced_by
from toolchain.tuning.options import TuneOptions


def of_run(run: str, day: int, seconds: float, trials: int, key: RecordKey = KEY) -> list[Record]:
    """Return a default, and trials that were measured one after the other until `seconds` later."""
    made = []
    for number in range(trials + 1):
        past = seconds * number / trials
        made.append(
            Record(
                key,
                "function",
                "metaschedule",
                "{}",
                f"{run} {number}",
                replace(PROVENANCE, run=run, trial=number - 1 if number else None),
                (1.0,),
                created=f"2026-03-{day:02}T10:{int(past // 60):02}:{past % 60:06.3f}+00:00",
            )
        )
    return made


def earlier_pace(records: list[Record], key: RecordKey, runner: str = "boards") -> Pace | None:
    with RecordStore(SqliteFile(None)) as store:
        function = Function("function", key.workload, "conv", "")
        store.add_new([function], records)
        return paced_by(store, key, runner, {"some-model"})


def test_it_is_that_of_the_last_run_on_the_class() -> None:
    records = [*of_run("late", 9, 80.0, 40), *of_run("early", 2, 400.0, 40)]
    pace = earlier_pace(records, KEY)
    assert pace and pace.seconds == pytest.approx(2.0) and not pace.most
    assert "2.0 s a trial, as in the run of 2026-03-09" in pace.reason


OTHERS = [{"board_class": "pynq"}, {"cpu": "cortex-a53"}, {"threads": 1}, {"device": "gpu"}]


@pytest.mark.parametrize("other", OTHERS)
def test_other_boards_and_devices_say_nothing(other: dict[str, object]) -> None:
    key = replace(KEY, **other)
    assert key != KEY and earlier_pace(of_run("other", 9, 80.0, 40, key), KEY) is None


def test_other_tasks_of_the_class_do() -> None:
    assert earlier_pace(of_run("run", 9, 80.0, 40, replace(KEY, workload="f" * 16)), KEY)


def test_a_few_trials_are_no_pace() -> None:
    records = [*of_run("run", 2, 40.0, 10), *of_run("short", 9, 40.0, 3)]
    pace = earlier_pace(records, KEY)
    assert pace and pace.seconds == pytest.approx(4.0)
    assert earlier_pace(of_run("short", 9, 40.0, 3), KEY) is None


def test_a_choice_that_was_compared_later_does_not_count() -> None:
    late = replace(of_run("run", 28, 40.0, 10)[-1], confirmed=True)
    pace = earlier_pace([*of_run("run", 2, 40.0, 10), late], KEY)
    assert pace and pace.seconds == pytest.approx(4.0)


def test_boards_and_models_say_nothing_of_each_other() -> None:
    model = [
        replace(record, provenance=replace(record.provenance, board="some-model 2"))
        for record in of_run("modelled", 9, 4.0, 40)
    ]
    records = [*of_run("measured", 2, 80.0, 40), *model]
    of_boards, of_model = earlier_pace(records, KEY), earlier_pace(records, KEY, "some-model")
    assert of_boards and of_boards.seconds == pytest.approx(2.0)
    assert of_model and of_model.seconds == pytest.approx(0.1)
    assert earlier_pace(model, KEY) is None


def test_what_asks_no_board_is_expected_to_take_what_it_says() -> None:
    pace = usual_pace("some-model", 0.6)
    assert (pace.seconds, pace.most) == (0.6, False)
    assert pace.reason == "--runner some-model takes some 0.6 s a trial; no run of it was timed yet"


def test_else_it_is_the_longest_that_trials_are_given() -> None:
    board = find_board("local")
    given = longest_pace([CONV, DENSE], board, TuneOptions(timeout_s=9.0))
    assert (given.seconds, given.most) == (9.0, True)
    assert longest_pace([CONV], board, TuneOptions()).seconds > 30


def test_what_is_typed_counts() -> None:
    assert trial_limit_s(TASK, find_board("local"), TuneOptions(timeout_s=9.0), cases=2) == 9.0


def test_more_repeats_and_cases_have_more_time() -> None:
    board, few = find_board("local"), TuneOptions(repeat=1, min_repeat_ms=0)
    many = TuneOptions(repeat=10, min_repeat_ms=5000)
    assert trial_limit_s(TASK, board, many) >= trial_limit_s(TASK, board, few) + 50
    assert trial_limit_s(TASK, board, few, cases=9) >= trial_limit_s(TASK, board, few)
