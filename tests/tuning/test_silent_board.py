"""A board that goes silent in a tuning run is power-cycled, taken in again, and the run goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.boards.power.supply import Supply, supplied
from tests.boards.ssh.sshd import Sshd, sshd
from tests.tuning.plain import plain
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tuning.boards import pool as board_pool
from toolchain.tuning.boards import revival
from toolchain.tuning.events import Event, Notice, PowerCycled, StepBegan, Trial
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run import conclude as finalists
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow
HOW = TuneOptions(trials=6, heaviest=1, tuner="random", repeat=2, min_repeat_ms=1, timeout_s=5)


@dataclass
class Site:
    """A board `rk` behind a server with a supply, in a toolchain.toml."""

    server: Sshd
    supply: Supply
    folder: Path

    def board(self, **changed: object) -> Board:
        values = {"pause_s": 0, "silent_s": 1, "boot_s": 30, "between_s": 0, **changed}
        words = {action: self.supply.argv(action) for action in ("on", "off")}
        listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in {**words, **values}.items())
        entry = {
            "class": "x86_64",
            "host": "127.0.0.1",
            "port": self.server.port,
            "host_key": self.server.host_key,
            "identity": str(self.server.identity),
            "root": str(self.server.root),
        }
        lines = ["[boards.rk]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        (self.folder / "toolchain.toml").write_text("\n".join([*lines, f"power = {{{listed}}}", ""]))
        configuration.cache_clear()
        return find_board("rk")


@pytest.fixture
def site(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    assert not state.exists()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(revival, "_LOOK_S", 0.3)
    with ExitStack() as stack:
        server = stack.enter_context(sshd(tmp_path / "sshd"))
        yield Site(server, stack.enter_context(supplied(server, server.root)), tmp_path)
        lab.stop()


class Listener:
    """Keeps the events of a run, and does something after its first trial."""

    def __init__(self, then: object) -> None:
        self.events: list[Event] = []
        self._then = then

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Trial) and event.stage == "search" and self._then:
            then, self._then = self._then, None
            then()

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]


def test_the_run_goes_on_after_a_power_cut(site: Site, model: Model, store: RecordStore) -> None:
    board = site.board()
    listener = Listener(lambda: site.supply.switch("off"))
    result = tune(model, plain(board), [board], store, HOW, listener)
    document = result.to_json()
    assert document["power_cycles"] == {"rk": 1}
    assert (document["trials"], document["failed"]) == (6, 0), listener.notices
    assert site.supply.switched == ["off", "on"]
    (cycled,) = [event for event in listener.events if isinstance(event, PowerCycled)]
    assert cycled.board == "rk" and cycled.answered_s is not None and cycled.text in listener.notices
    assert listener.notices.index(cycled.text) < listener.notices.index("board rk is back")
    assert any(text.startswith("board rk is away: ") for text in listener.notices)


def test_one_that_hangs_is_cycled_too(
    site: Site, model: Model, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.ssh.connection.HANDSHAKE_S", 6.0)
    monkeypatch.setattr("toolchain.tuning.boards.runner.GRACE_S", 2.0)
    board = site.board()

    def hang() -> None:
        running = [psutil.Process(site.server.process.pid), *site.server.sessions()]
        running += [process for process in psutil.process_iter() if _is_in(process, site.server.root)]
        for process in running:
            with suppress(psutil.Error):
                process.send_signal(signal.SIGSTOP)

    result = tune(model, plain(board), [board], store, HOW, listener := Listener(hang))
    assert result.power_cycles == {"rk": 1} and result.to_json()["trials"] == 6, listener.notices


def test_one_that_goes_silent_while_the_network_is_timed_is_cycled_and_asked_again(
    site: Site, model: Model, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finalists, "_HOPELESS", 1e9)  # what is measured goes on, however slow it is
    board = site.board()
    events: list[Event] = []
    timing = StepBegan("timing a first inference of the network")

    def listen(event: Event) -> None:
        events.append(event)
        if event == timing and events.count(timing) == 1:
            site.supply.switch("off")

    result = tune(model, plain(board), [board], store, HOW, listen)
    assert result.power_cycles == {"rk": 1} and site.supply.switched == ["off", "on"]
    said = [event.text for event in events if isinstance(event, Notice | PowerCycled)]
    lost, cycled = (place for place, text in enumerate(said) if text.startswith("board rk"))
    assert "the network cannot be timed: " in said[lost] and "was power-cycled: it answers" in said[cycled]
    assert result.network is not None, "it was timed after all"


def _is_in(process: psutil.Process, root: Path) -> bool:
    with suppress(psutil.Error):
        return Path(process.cwd()).is_relative_to(root)
    return False


def test_one_whose_server_dies_and_that_answers_is_not_cycled(
    site: Site, model: Model, store: RecordStore
) -> None:
    board = site.board(silent_s=0)

    def kill_servers() -> None:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if _is_in(process, site.server.root) and "serve" in process.cmdline():
                    process.kill()

    result = tune(model, plain(board), [board], store, HOW, Listener(kill_servers))
    assert result.to_json()["trials"] == 6 and result.power_cycles == {}
    assert site.supply.switched == []


def test_without_a_cycle_left_the_run_ends_as_before(
    site: Site, model: Model, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_pool, "ALL_AWAY_S", 2.0)
    board = site.board(most_cycles=0)
    listener = Listener(lambda: site.supply.switch("off"))
    with pytest.raises(ToolchainError, match="no board could be reached for 2 s: rk: "):
        tune(model, plain(board), [board], store, HOW, listener)
    assert site.supply.switched == []


def test_one_that_stays_silent_is_cycled_once_and_the_run_ends(
    site: Site, model: Model, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_pool, "ALL_AWAY_S", 2.0)
    (site.server.folder / "broken").touch()
    board = site.board(boot_s=1, most_cycles=9)
    listener = Listener(lambda: site.supply.switch("off"))
    with pytest.raises(ToolchainError, match="no board could be reached for 2 s: rk: "):
        tune(model, plain(board), [board], store, HOW, listener)
    assert site.supply.switched == ["off", "on"]
    (cycled,) = [event for event in listener.events if isinstance(event, PowerCycled)]
    assert cycled.answered_s is None and "did not answer within 1 s" in cycled.text
    until(lambda: not revival_threads())


def revival_threads() -> list[str]:
    import threading

    return [thread.name for thread in threading.enumerate() if thread.name.startswith("revival of")]
