"""Installations over a real sshd whose link is cut, or whose session is killed: what was received stays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.boards.ssh.proxy import Proxy, proxy
from tests.boards.ssh.sshd import Sshd, sshd
from tests.releases.made import NOW
from tests.rollouts.toys import delivery, stocked, toy_board, write_policy
from tests.waiting import PATIENCE_S, until
from toolchain.boards.board import Board
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError
from toolchain.events.rollouts import BoardCycled, BoardMoved, BoardOutcome
from toolchain.releases.export import Delivery
from toolchain.rollouts.attempt import Attempt, Job, head_for, new_number
from toolchain.rollouts.installer import Progress

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toys", "state")]
SIZE = 1_000_000  # the toy network reads no more than 1 MiB


@pytest.fixture(scope="module")
def clocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """Run a server whose boards have the time of the toy releases."""
    with sshd(tmp_path_factory.mktemp("sshd"), f"SetEnv SHLVL=1 FIELD_NOW={NOW + 60}") as running:
        yield running


@pytest.fixture
def link(clocked: Sshd) -> Iterator[Proxy]:
    with proxy(clocked.port) as running:
        yield running


def board_at(clocked: Sshd, link: Proxy, root: Path) -> Board:
    return board_behind(clocked, link.port, root)


def board_behind(clocked: Sshd, port: int, root: Path) -> Board:
    return toy_board(root, transport=SshTransport(clocked.address(port, root.name), str(root)))


def stock_directly(clocked: Sshd, root: Path) -> None:
    """Send the installer to a board past the link."""
    board = board_behind(clocked, clocked.port, root)
    stocked(board)
    board.transport.close()


def job(board: Board, given: Delivery, window_s: float = 60.0) -> tuple[Job, list[str]]:
    steps: list[str] = []

    def listen(event: BoardMoved | BoardCycled) -> None:
        assert isinstance(event, BoardMoved)
        steps.append(event.step)

    return Job(board, given, window_s, threading.Event(), listen), steps


def finish(work: Job) -> BoardOutcome:
    while (outcome := work.run()) is None:
        pass
    return outcome


def test_a_cut_in_the_middle_of_a_part_costs_what_was_on_its_way(
    clocked: Sshd, link: Proxy, tmp_path: Path
) -> None:
    given = delivery(tmp_path, padding=SIZE)
    board = board_at(clocked, link, tmp_path / "b")
    stock_directly(clocked, tmp_path / "b")  # the link counts the bytes of each connection
    link.rate = 5e5
    link.cut_after = SIZE // 2
    work, steps = job(board, given)
    incoming = tmp_path / "b" / "field" / "tiny" / "incoming"
    assert work.run() is None, "the cut came too late"

    def kept() -> int:
        return max(file.stat().st_size for file in incoming.iterdir())

    until(lambda: kept() > SIZE // 4, what="that the board writes what has come")
    there = kept()
    before = work._sent
    outcome = finish(work)
    assert (outcome.state, outcome.version) == ("installed", "2.0.0"), outcome
    head = len(head_for(board, given, new_number()))
    library = max(given.signed.release.sizes)
    assert outcome.bytes_sent - before <= 1.02 * (library - there + head) + 4096
    assert steps.count("preflight") == 2


def test_a_link_that_breaks_after_the_last_byte_changes_nothing(
    clocked: Sshd, link: Proxy, tmp_path: Path
) -> None:
    board = board_at(clocked, link, tmp_path / "b")
    ends = tmp_path / "ends"
    write_policy(
        tmp_path / "b",
        health=["sh", "-c", f"until [ -e {ends} ]; do sleep 0.05; done"],
        health_timeout_s=int(PATIENCE_S),
    )
    given = delivery(tmp_path)

    def cut_in(step: str) -> None:
        if step == "health":
            link.cut()

    attempt = Attempt(board, given, Progress(cut_in))
    with pytest.raises(LostError):
        attempt.run()
    ends.touch()
    current = tmp_path / "b" / "field" / "tiny" / "current"
    until(lambda: current.is_symlink())

    def known() -> bool:
        outcome = attempt.run()
        assert outcome.state in ("installed", "interrupted")
        return outcome.state == "installed"

    until(known)


def test_a_killed_session_is_a_broken_link(clocked: Sshd, link: Proxy, tmp_path: Path) -> None:
    board = board_at(clocked, link, tmp_path / "b")
    stocked(board)
    board.transport.close()  # the link counts the bytes of each connection
    link.rate = 2e5
    work, steps = job(board, delivery(tmp_path, padding=SIZE))
    results: list[BoardOutcome] = []
    thread = threading.Thread(target=lambda: results.append(finish(work)))
    thread.start()
    incoming = tmp_path / "b" / "field" / "tiny" / "incoming"
    until(lambda: any(file.stat().st_size > SIZE // 8 for file in incoming.glob("*")))
    for session in clocked.sessions():
        session.send_signal(signal.SIGKILL)
    thread.join(PATIENCE_S)
    assert [outcome.state for outcome in results] == ["installed"], results
    assert steps.count("preflight") == 2


def test_a_link_that_breaks_as_a_command_begins_is_tried_again(tmp_path: Path) -> None:
    once = tmp_path / "once"
    force = f'ForceCommand mkdir {once} 2>/dev/null && kill -TERM $$; eval "$SSH_ORIGINAL_COMMAND"'
    with sshd(tmp_path / "sshd", f"SetEnv SHLVL=1 FIELD_NOW={NOW + 60}", force) as server:
        board = board_behind(server, server.port, tmp_path / "b")
        work, steps = job(board, delivery(tmp_path))
        assert work.run() is None, "it is tried again"
        assert once.is_dir() and steps[-1] == "waits to try again"
        assert finish(work).state == "installed"


def test_a_board_that_is_away_is_offline_after_the_window(clocked: Sshd, tmp_path: Path) -> None:
    with proxy(clocked.port) as gone:
        pass
    board = board_at(clocked, gone, tmp_path / "b")
    work, _ = job(board, delivery(tmp_path), window_s=0)
    assert finish(work).state == "offline"
