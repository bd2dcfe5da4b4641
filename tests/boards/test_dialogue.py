"""Dialogues with a command on a board, local or over SSH: what the command decides, what the link does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh.proxy import proxy
from tests.boards.ssh.sshd import Sshd
from tests.waiting import PATIENCE_S, until
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError, LostError
from toolchain.errors import ToolchainError

MUCH = 8 << 20  # more than pipes and windows hold


@pytest.fixture(
    params=["local", *(pytest.param(each, marks=pytest.mark.slow) for each in ("ssh", "by_client"))]
)
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalTransport | SshTransport]:
    if request.param != "local":
        yield request.getfixturevalue(request.param)
        return
    root = tmp_path / "root"
    root.mkdir()
    yield LocalTransport(root)


def test_bytes_go_in_and_lines_come_out(board: LocalTransport | SshTransport) -> None:
    talk = board.talk(["sh", "-c", f"echo ready; head -c {MUCH} | cksum; read word; echo $word; exit 3"])
    with contextlib.closing(talk):
        assert talk.read_line(PATIENCE_S) == b"ready\n"
        assert talk.send(bytes(MUCH), PATIENCE_S)
        assert talk.read_line(PATIENCE_S) == b"%d %d\n" % (cksum_of_zeros(board), MUCH)
        assert talk.send(b"last\n", PATIENCE_S)
        assert (talk.read_line(PATIENCE_S), talk.read_line(PATIENCE_S)) == (b"last\n", b"")
        assert talk.wait(PATIENCE_S) == 3


def cksum_of_zeros(board: LocalTransport | SshTransport) -> int:
    return int(board.run(["sh", "-c", f"head -c {MUCH} /dev/zero | cksum"]).stdout.split()[0])


def test_a_command_that_has_enough_says_so(board: LocalTransport | SshTransport) -> None:
    with contextlib.closing(board.talk(["sh", "-c", "echo refused; echo why >&2; exit 5"])) as talk:
        assert not talk.send(bytes(MUCH), PATIENCE_S)
        assert talk.read_line(PATIENCE_S) == b"refused\n"
        assert (talk.wait(PATIENCE_S), talk.errors()) == (5, b"why\n")


@pytest.mark.slow
def test_a_command_that_neither_reads_nor_speaks_is_left_at_the_deadline(
    board: LocalTransport | SshTransport,
) -> None:
    with contextlib.closing(board.talk(["sh", "-c", "echo $$; exec sleep 300"])) as talk:
        number = int(talk.read_line(PATIENCE_S))
        with pytest.raises(DeadlineError):
            talk.send(bytes(MUCH), 0.3)
        with pytest.raises(DeadlineError):
            talk.read_line(0.1)
        with pytest.raises(DeadlineError):
            talk.wait(0.1)
        os.kill(number, signal.SIGKILL)


def test_a_command_goes_on_when_its_input_ends(board: LocalTransport | SshTransport) -> None:
    talk = board.talk(["sh", "-c", "trap '' HUP PIPE; echo ready; cat; sleep 0.2; echo late; touch done"])
    talk.read_line(PATIENCE_S)
    talk.close()
    until((Path(board.root) / "done").exists)


def test_reports_dialogue_that_cannot_start(board: LocalTransport | SshTransport) -> None:
    with pytest.raises(ToolchainError, match="no such program"):
        board.talk(["bin/absent"])


@pytest.mark.slow
def test_lost_link_is_reported_and_command_continues(server: Sshd, tmp_path: Path) -> None:
    with proxy(server.port) as link:
        board = SshTransport(server.address(link.port), str(tmp_path))
        talk = board.talk(["sh", "-c", "trap '' HUP PIPE; echo ready; cat | wc -c >got; mv got done"])
        assert talk.read_line(PATIENCE_S) == b"ready\n"
        link.cut_after = 3 << 20
        with pytest.raises(LostError, match="connection was lost"):
            talk.send(bytes(64 << 20), PATIENCE_S)
        with pytest.raises(LostError):
            talk.read_line(PATIENCE_S)
        talk.close()
        board.close()
    until((tmp_path / "done").exists)
    assert int((tmp_path / "done").read_text()) < 64 << 20
