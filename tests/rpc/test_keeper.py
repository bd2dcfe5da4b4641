"""A board's server is started again when it ends, left alone when it lies, and tried again when asked for."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import PATIENCE_S, until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.errors import ToolchainError
from toolchain.rpc import keeper as module
from toolchain.rpc.keeper import Keeper, _document
from toolchain.rpc.tracker import Tracker

NOTHING = ("[]", "5", "null", "abc", "", "[" * 60_000, '{"port": "5000"}', '{"port": -1}', '{"port": 70000}')
NEVER_S = 3600.0  # a pause that only being asked can end


@pytest.mark.parametrize(
    "line",
    [*NOTHING, '{"port": true}', '{"port": 1e300}', '{"port": NaN}', '{"error": "x"}', '{"error": [1]}'],
)
def test_a_line_of_another_form_says_nothing(line: str) -> None:
    said = _document(line)
    assert said.port is None and said.error is None


def test_a_port_or_an_error() -> None:
    assert _document('{"port": 5000, "key": "x"}').port == 5000
    error = _document('{"error": {"kind": "io", "message": "cannot \\u001b[2J listen"}}').error
    assert error is not None and error.message.startswith("cannot ") and "\x1b" not in error.message


WAITS = '{"waiting": {"holder": {"pid": 7, "what": "bench for ben@lap"}, "ahead": 2, "waited_s": 3.5}}'


def test_what_a_session_waits_for() -> None:
    said = _document(WAITS)
    assert said.is_of_waiting and said.waiting is not None and said.waiting.holder is not None
    assert (said.waiting.holder.what, said.waiting.ahead) == ("bench for ben@lap", 2)
    over = _document('{"waiting": null}')
    assert over.is_of_waiting and over.waiting is None
    assert not _document('{"port": 5000}').is_of_waiting
    for lie in ('{"waiting": 5}', '{"waiting": {"holder": null, "ahead": -1, "waited_s": 1}}'):
        assert not _document(lie).is_of_waiting, "it counts as any other line"


def test_lines_of_waiting_sessions_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("toolchain.rpc.keeper.time.monotonic", lambda: now[0])
    talk, waits, other = module._Talk(), _document(WAITS), _document("{}")
    for _ in range(10_000):  # two a second, for hours
        now[0] += 0.5
        assert not talk.is_too_much(waits)
    assert not any(talk.is_too_much(other) for _ in range(module._MOST_LINES)) and talk.is_too_much(other)
    now[0] += 3600
    assert not any(talk.is_too_much(waits) for _ in range(module._MOST_WAITS))
    assert talk.is_too_much(waits), "so many at once says no honest server"


class Site:
    """A tracker in this process, and keepers of boards in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tracker = Tracker()
        self.forgotten: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._keepers: list[Keeper] = []
        self.wait_for(self.tracker.start(0))

    def wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def keep(self, name: str = "a") -> Keeper:
        """Start keeping a server on a board of this host; its folder need not be there."""
        transport = LocalTransport(self.folder / name)
        board: Board = dataclasses.replace(local_board(), name=name, transport=transport)
        door = self.wait_for(self.tracker.open_door(f"{board.tracker_key}@{name}"))

        def forget() -> None:
            self.forgotten.append(name)
            self.tracker.end_server(door)

        made = Keeper(board, door, forget, [], self.folder)
        self._keepers.append(made)
        made.start()
        return made

    def is_registered(self, keeper: Keeper) -> bool:
        return self.tracker.registry.is_registered(keeper.board.tracker_key, keeper.board.name)

    def close(self) -> None:
        for each in self._keepers:
            each.stop()
        self.wait_for(self.tracker.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def server(folder: Path) -> psutil.Process | None:
    """Return the server that runs in a folder."""
    for process in psutil.Process().children(recursive=True):
        try:
            if "serve" in process.cmdline() and process.cwd() == str(folder):
                return process
        except psutil.Error:  # it has just ended
            continue
    return None


def running(site: Site, keeper: Keeper) -> psutil.Process:
    """Wait until the server serves; return it."""
    until(
        lambda: keeper.state == "serving" and site.is_registered(keeper), what=f"a server: {keeper.failure}"
    )
    found = server(site.folder / keeper.board.name)
    assert found is not None
    return found


@pytest.mark.slow
def test_it_serves_until_it_is_stopped(site: Site) -> None:
    (site.folder / "a").mkdir()
    keeper = site.keep()
    process = running(site, keeper)
    assert (keeper.failure, keeper.aside, keeper.silent()) == (None, False, None)
    keeper.stop()
    assert not keeper.is_alive() and not process.is_running()
    until(lambda: not site.is_registered(keeper))


@pytest.mark.slow
def test_a_server_that_is_killed_is_told_of_and_started_again(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    (site.folder / "a").mkdir()
    keeper = site.keep()
    first = running(site, keeper)
    first.kill()
    until(lambda: "board a: the server has ended: by signal 9 (Killed)" in caplog.text)
    until(lambda: server(site.folder / "a") not in (None, first))
    assert running(site, keeper).pid != first.pid and keeper.failure is None


@pytest.mark.slow
def test_who_ends_a_server_says_why_and_another_one_begins_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", NEVER_S)
    (site.folder / "a").mkdir()
    keeper = site.keep()
    first = running(site, keeper)
    keeper.end_server(ToolchainError("board a: its lease was released"))
    assert not first.is_running()
    until(lambda: server(site.folder / "a") is not None)
    running(site, keeper)
    assert "board a: its lease was released" in caplog.text


@pytest.mark.slow
def test_one_that_lied_is_forgotten_and_not_started_until_it_is_asked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.0)
    (site.folder / "a").mkdir()
    keeper = site.keep()
    process = running(site, keeper)
    keeper.door.lied("sent kCallFunc, which only a client may say")
    until(lambda: not process.is_running() and not keeper.serving)
    assert keeper.state == "aside" and site.forgotten == ["a"]
    assert keeper.failure is not None and "its server sent kCallFunc" in keeper.failure.message
    assert "toolchain lab start a" in keeper.failure.hint
    keeper.end_server(ToolchainError("nobody may start it by ending it"))
    assert server(site.folder / "a") is None and keeper.state == "aside"
    keeper.retry()
    assert keeper.failure is None
    running(site, keeper)


@pytest.mark.slow
def test_who_retries_while_the_server_still_ends_waits_for_the_next_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "a").mkdir()
    keeper = site.keep()
    first = running(site, keeper)
    process = keeper._process
    assert process is not None
    close, may_end = process.close, threading.Event()
    told: list[ToolchainError | None] = []

    def close_late() -> None:
        may_end.wait(PATIENCE_S)
        close()

    monkeypatch.setattr(process, "close", close_late)
    monkeypatch.setattr(keeper, "_disconnect", lambda: told.append(keeper.failure))
    keeper.door.lied("sent kCallFunc, which only a client may say")
    until(lambda: keeper.failure is not None)
    keeper.retry()
    may_end.set()
    until(lambda: told != [])
    assert told == [None]
    assert running(site, keeper).pid != first.pid


@pytest.mark.slow
def test_a_board_that_is_away_is_tried_again_later_and_later_and_when_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.04)
    (site.folder / "a").write_text("a file where the board's folder should be")
    keeper = site.keep()
    until(lambda: caplog.text.count("; again in 0.04 s") > 1)
    pauses = [record.getMessage().rpartition("again in ")[2] for record in caplog.records]
    assert pauses[:4] == ["0.01 s", "0.02 s", "0.04 s", "0.04 s"]
    assert keeper.state == "away" and keeper.failure is not None and "board a" in keeper.failure.message
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", NEVER_S)
    until(lambda: "; again in 0.08 s" in caplog.text)  # and twice as long each time
    (site.folder / "a").unlink()
    (site.folder / "a").mkdir()
    keeper.retry()
    running(site, keeper)
