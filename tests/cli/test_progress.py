"""What a command is at: few lines in a file, a line that changes on a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.screen import screen
from toolchain.cli.progress import step_progress


def test_counted_steps_are_thinned_out_without_terminal(capfd: pytest.CaptureFixture[str]) -> None:
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
def test_uncounted_steps_are_always_printed(steps: list[str]) -> None:
    """A count stands between blanks: a path is none."""
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("toolchain.cli.progress.note", said.append)
        with step_progress() as tell:
            for step in steps:
                tell(step)
    assert said == steps


def test_terminal_keeps_last_counted_step() -> None:
    with screen() as shown:
        with step_progress() as tell:
            tell("compiling 1/2 conv2d")
            tell("compiling 2/2 dense")
        said = shown.shows()
    assert "compiling 2/2 dense\r\n" in said and "compiling 1/2 conv2d\r\n" not in said
