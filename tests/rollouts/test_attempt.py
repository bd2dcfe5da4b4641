"""How a try that lost its link is judged afterwards, and when the next one begins."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from toolchain.boards.transport import LostError
from toolchain.events.rollouts import Cause
from toolchain.rollouts.attempt import Attempt, Job, known_outcome
from toolchain.rollouts.installer import AppStatus, LastTry

DIGEST = "d" * 64


ATTEMPT, EARLIER = "a" * 16, "e" * 16


def app_status(state: str, step: str, code: str, attempt: str | None = ATTEMPT) -> AppStatus:
    return AppStatus.model_validate(
        {
            "app": "toy",
            "state": state,
            "version": "1.0.0",
            "digest": "c" * 64,
            "previous": None,
            "since": 1,
            "tried": LastTry(version="2.0.0", digest=DIGEST, attempt=attempt),
            "error": Cause(code=code, step=step, message="why"),
        }
    )


@pytest.mark.parametrize(
    ("state", "step", "code", "ends"),
    [
        ("active", "test", "wrong", "refused"),
        ("active", "health", "health", "rolled-back"),
        ("broken", "activate", "damaged", "broken"),
        ("active", "test", "cut", None),  # the board restarted, and undid it
        ("active", "health", "cut", None),
        ("active", "check", "busy", None),
        ("active", "test", "stopped", None),
        ("cut", "unpack", "space", None),
        ("active", "receive", "link", None),
    ],
)
def test_what_a_board_says_after_a_broken_link(state: str, step: str, code: str, ends: str | None) -> None:
    found = known_outcome(app_status(state, step, code), ATTEMPT, at_work=False)
    assert (found.state if found else None) == ends


@pytest.mark.parametrize("attempt", [EARLIER, None])
def test_the_end_of_another_attempt_is_no_answer(attempt: str | None) -> None:
    earlier = app_status("active", "health", "health", attempt)
    assert known_outcome(earlier, ATTEMPT, at_work=False) is None


@pytest.mark.parametrize("tries", [0, 1, 5, 5000])
def test_a_board_that_is_offline_for_long_is_tried_on(monkeypatch: pytest.MonkeyPatch, tries: int) -> None:
    def lost(_attempt: Attempt) -> None:
        raise LostError("no route to host")

    monkeypatch.setattr(Attempt, "run", lost)
    board: Any = SimpleNamespace(name="b", power=None, transport=SimpleNamespace(close=lambda: None))
    job = Job(board, SimpleNamespace(), 1e6, Event(), lambda _: None)
    job._tries = tries
    assert job.run() is None
