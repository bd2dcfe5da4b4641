"""The host's side of an installation against every kind of answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.releases.made import ANNA, small_bundle, terms
from toolchain.bundles.read import read_bundle
from toolchain.errors import CheckError, ToolchainError
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed_release import SignedRelease, open_release, release_path
from toolchain.releases.statement import RELEASE_TYPE
from toolchain.releases.terms import state as state_of
from toolchain.rollouts.installer import Progress, StoppedError, send_release

END = {"end": "installed", "app": "tiny", "version": "2.0.0"}


class FakeDialogue:
    """A board that says given lines, and keeps what it receives."""

    def __init__(self, *lines: object, takes: int = 1 << 30) -> None:
        self.lines = [
            line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines
        ]
        self.takes, self.got = takes, b""
        self.patience: list[float] = []
        self.limits: list[float] = []

    def send(self, data: bytes, patience: float) -> bool:
        assert patience > 0
        self.patience.append(patience)
        if len(self.got) + len(data) > self.takes:
            return False
        self.got += data
        return True

    def read_line(self, timeout: float) -> bytes:
        assert timeout > 0
        self.limits.append(timeout)
        return self.lines.pop(0) if self.lines else b""

    def wait(self, timeout: float) -> int:
        assert timeout > 0
        return 1

    def errors(self) -> bytes:
        return b"edge-rt: why\n"

    def close(self) -> None:
        pass


@pytest.fixture
def signed(tmp_path: Path) -> SignedRelease:
    bundle = small_bundle(tmp_path / "tiny.bundle")
    envelope = Envelope(RELEASE_TYPE, state_of(read_bundle(bundle), terms()).to_bytes())
    release_path(bundle).write_bytes(envelope.signed_by(ANNA, "it").to_bytes())
    return open_release(bundle)


def part(signed: SignedRelease, index: int, offset: int = 0) -> bytes:
    return b"".join(signed.part(index, offset))


def test_what_is_needed_is_sent_from_where_it_is_needed(signed: SignedRelease) -> None:
    steps: list[str] = []
    sent: list[int] = []
    board = FakeDialogue({"step": "preflight"}, {"step": "receive"}, {"need": [[1, 100], [0, 0]]}, END)
    line = send_release(board, signed, b"HEAD", "b", Progress(steps.append, sent.append))
    assert line.end == "installed" and steps == ["preflight", "receive"]
    assert board.got == b"HEAD" + part(signed, 1, 100) + part(signed, 0)
    assert sum(sent) == len(board.got)


def test_a_board_that_has_it_gets_no_part(signed: SignedRelease) -> None:
    board = FakeDialogue({"step": "preflight"}, {"end": "unchanged"})
    assert send_release(board, signed, b"HEAD", "b", Progress()).end == "unchanged"
    assert board.got == b"HEAD"


def test_a_board_that_stops_reading_gives_its_reason(signed: SignedRelease) -> None:
    cause = {"code": "space", "step": "receive", "message": "no space left"}
    board = FakeDialogue({"need": [[1, 0]]}, {"end": "refused", "cause": cause}, takes=10)
    line = send_release(board, signed, b"HEAD", "b", Progress())
    assert line.cause is not None and line.cause.message == "no space left"


def test_a_board_may_read_all_that_it_has_before_it_answers(
    signed: SignedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for parts among its files, and hashes what it has of a part before it takes the rest."""
    monkeypatch.setattr("toolchain.rollouts.installer.SLOWEST_DISK", 0.5)
    steps = ("preflight", "receive", "check", "unpack")
    preflight, receive, *others = ({"step": step} for step in steps)
    board = FakeDialogue(preflight, receive, {"need": [[1, 100]]}, *others, END)
    send_release(board, signed, b"HEAD", "b", Progress())
    assert min(board.limits[1:]) >= 2 * sum(signed.release.sizes)
    assert board.patience[1:] and min(board.patience[1:]) >= 2 * 100 + board.patience[0]


@pytest.mark.parametrize(
    "line",
    [
        b"?\n",
        {"step": "dance"},
        {"need": [[99, 0]]},
        {"need": [[0, 1 << 40]]},
        {"need": [[-1, 0]]},
        {"end": "perhaps"},
        {},
        {"step": "test", "end": "installed"},
    ],
)
def test_an_answer_that_cannot_be_right_is_refused(signed: SignedRelease, line: object) -> None:
    with pytest.raises(CheckError, match="cannot be right"):
        send_release(FakeDialogue(line), signed, b"HEAD", "b", Progress())


def test_lines_without_end_are_refused(signed: SignedRelease) -> None:
    board = FakeDialogue(*[{"step": "test"}] * 1001)
    with pytest.raises(CheckError, match="more than 1000"):
        send_release(board, signed, b"HEAD", "b", Progress())


def test_an_end_without_result_is_told_with_the_last_words(signed: SignedRelease) -> None:
    with pytest.raises(ToolchainError, match="code 1 and without a result: edge-rt: why"):
        send_release(FakeDialogue({"step": "test"}), signed, b"HEAD", "b", Progress())


def test_a_stop_ends_the_sending(signed: SignedRelease) -> None:
    told = Progress()
    told.stop.set()
    with pytest.raises(StoppedError):
        send_release(FakeDialogue({"need": [[1, 0]]}, END), signed, b"HEAD", "b", told)
