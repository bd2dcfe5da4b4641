"""How long a trial may take: as a plan says, and as a runner allows."""

from __future__ import annotations

from tests.tuning.toy_run import TASK
from toolchain.boards.inventory.lookup import find_board
from toolchain.tuning.boards.limit import trial_limit_s
from toolchain.tuning.options import TuneOptions


def test_what_is_typed_counts() -> None:
    assert trial_limit_s(TASK, find_board("local"), TuneOptions(timeout_s=9.0), cases=2) == 9.0


def test_more_repeats_and_cases_have_more_time() -> None:
    board, few = find_board("local"), TuneOptions(repeat=1, min_repeat_ms=0)
    many = TuneOptions(repeat=10, min_repeat_ms=5000)
    assert trial_limit_s(TASK, board, many) >= trial_limit_s(TASK, board, few) + 50
    assert trial_limit_s(TASK, board, few, cases=9) >= trial_limit_s(TASK, board, few)
