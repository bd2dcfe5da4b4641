"""A run while it lasts: a line for each batch, every trial with -v; what was found when it is interrupted."""

from __future__ import annotations

import re

import click
import pytest

from tests.cli.tuning.runs import CONV, batch, begun
from toolchain.cli.tuning import progress
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.errors import ToolchainError
from toolchain.quantities import UNKNOWN
from toolchain.tuning.events import Event, Notice, Trial


def told(capsys: pytest.CaptureFixture[str], *events: Event) -> list[str]:
    with tuning_progress() as listener:
        for event in events:
            listener(event)
    shown = capsys.readouterr()
    assert shown.out == "", "stdout is the result's"
    return [re.sub(" +", " ", line).strip() for line in shown.err.splitlines()]


def test_a_batch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, *begun(), *batch())
    assert lines == [
        "measuring the defaults",
        "default 44fe76e2 2.000 ms a call on b1 fused_conv2d",
        "default 90ab12cd 1.000 ms a call on b1 fused_dense",
        "searching",
        "44fe76e2 failed, timeout: not done within 3 s",
        "3/20 44fe76e2 best 1.000 ms a call 8.000 GFLOP/s 3 trials, 1 failed "
        "these tasks: 4.000 ms per inference 0 s fused_conv2d",
    ]


def test_a_failure_of_each_class_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    slow = Trial(CONV, "search", None, 2.0, "timeout", "not done within 3 s")
    wrong = Trial(CONV, "search", None, 2.0, "wrong result", "differs by 0.5")
    lines = told(capsys, *begun(), slow, slow, wrong, slow, wrong)
    assert [line for line in lines if "failed" in line] == [
        "44fe76e2 failed, timeout: not done within 3 s",
        "44fe76e2 failed, wrong result: differs by 0.5",
    ]


def test_every_trial_is_told_with_v(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "is_verbose", lambda: True)
    lines = told(capsys, *begun(), *batch())
    assert lines[4:7] == [
        "1/20 44fe76e2 1.000 ms a call, best so far 1.000 ms on b1 fused_conv2d",
        "2/20 44fe76e2 failed, timeout: not done within 3 s on b2 fused_conv2d",
        "3/20 44fe76e2 1.500 ms a call, best so far 1.000 ms on b1 fused_conv2d",
    ]


def test_v_is_what_the_running_command_was_given() -> None:
    from toolchain.cli.output import is_verbose, output_options

    said: list[bool] = []
    command = click.command()(output_options(lambda: said.append(is_verbose())))
    command.main([], standalone_mode=False)
    command.main(["-v"], standalone_mode=False)
    assert (said, is_verbose()) == ([False, True], False)


def test_notices_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, Notice("board b1 is away")) == ["board b1 is away"]


def test_an_interrupted_run_says_what_was_found_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), tuning_progress() as listener:
        for event in [*begun(), *batch()]:
            listener(event)
        capsys.readouterr()
        raise KeyboardInterrupt
    said = re.sub(" +", " ", capsys.readouterr().err)
    assert "44fe76e2 1.000 ms 8.000 GFLOP/s 3 trials (1 failed) fused_conv2d" in said
    assert "90ab12cd 1.000 ms 1.000 GFLOP/s 0 trials fused_dense" in said
    assert "These tasks: 4.000 ms per inference (7.000 ms without tuning) Trials: 3/20" in said
    assert "the same command continues from here" in said


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ToolchainError("no worker could be reached for 60 s")]
)
def test_a_run_that_ends_while_defaults_are_measured_says_what_it_has(
    capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    with pytest.raises(type(error)), tuning_progress() as listener:
        for event in begun()[:3]:
            listener(event)
        raise error
    said = re.sub(" +", " ", capsys.readouterr().err)
    assert "44fe76e2 2.000 ms 4.000 GFLOP/s 0 trials fused_conv2d" in said
    assert f"90ab12cd {UNKNOWN} {UNKNOWN} 0 trials fused_dense" in said
    assert "the same command continues from here" in said


def test_a_run_interrupted_before_its_first_default_found_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt), tuning_progress():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
