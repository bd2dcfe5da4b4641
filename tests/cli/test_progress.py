"""What a command is at: few lines in a file, a line that changes on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.screen import screen
from toolchain.cli.progress import describe, step_progress, trial_progress
from toolchain.records.record import Failure
from toolchain.tasks.task import Task
from toolchain.tuning.events import Notice, Step, Trial


class Some(Task):
    """A task that computes nothing."""

    definition = ""


TASK = Some("abcdefgh01234567", "conv2d", 1, 10, ((1,),))


def trial(
    ms: float | None, stage: str = "search", failure: Failure | None = None, message: str = ""
) -> Trial:
    return Trial(TASK, stage, ms, 1.5, failure, message)  # type: ignore[arg-type]


def test_steps_that_count_are_thinned_out_where_no_terminal_is(capfd: pytest.CaptureFixture[str]) -> None:
    with step_progress() as tell:
        tell("reading the network")
        for number in range(1, 200):
            tell(f"compiling {number}/199 conv2d")
        tell("linking")
    said = capfd.readouterr().err.splitlines()
    assert said[:2] == ["reading the network", "compiling 1/199 conv2d"]
    assert said[-2:] == ["compiling 199/199 conv2d", "linking"]
    assert len(said) < 20, "one in five seconds"


@given(st.lists(st.sampled_from(["a", "b/c", "1/2", "x 1/2", "http://10/20/x"]), max_size=9))
def test_what_does_not_count_is_never_left_out(steps: list[str]) -> None:
    """A count stands between blanks: a path is none."""
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("toolchain.cli.progress.note", said.append)
        with step_progress() as tell:
            for step in steps:
                tell(step)
    assert said == steps


def test_a_line_for_each_candidate_with_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    with trial_progress(100) as listen:
        listen(Step("uploading"))
        listen(trial(2.0, "default"))
        listen(trial(1.25))
        listen(Notice("board b went away"))
        listen(trial(None, failure="timeout", message="no answer in 10 s"))
    assert capfd.readouterr().err.splitlines() == [
        "uploading",
        "  default  abcdefgh      2.000 ms  best     1.500 ms  conv2d",
        "    1/100  abcdefgh      1.250 ms  best     1.500 ms  conv2d",
        "board b went away",
        "    2/100  abcdefgh  failed, timeout: no answer in 10 s  conv2d",
    ]


def test_on_a_terminal_what_failed_stays_to_be_read() -> None:
    with screen() as shown:
        with trial_progress(2) as listen:
            listen(trial(1.25))
            listen(trial(None, failure="build", message="no such instruction"))
        said = shown.shows()
    assert "abcdefgh failed, build: no such instruction\r\n" in said


def test_on_a_terminal_the_last_step_that_counts_stays() -> None:
    with screen() as shown:
        with step_progress() as tell:
            tell("compiling 1/2 conv2d")
            tell("compiling 2/2 dense")
        said = shown.shows()
    assert "compiling 2/2 dense\r\n" in said and "compiling 1/2 conv2d\r\n" not in said


def test_a_failure_is_told_with_its_reason() -> None:
    assert describe(trial(None, failure="wrong result", message="3 of 9")) == "failed, wrong result: 3 of 9"
