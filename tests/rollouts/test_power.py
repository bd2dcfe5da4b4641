"""A board that goes silent in a rollout is power-cycled once, and the installation goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.boards.power.supply import Supply, supplied
from tests.boards.ssh.proxy import Proxy, proxy
from tests.boards.ssh.sshd import Sshd, sshd
from tests.releases.made import NOW
from tests.rollouts.toys import APP, delivery, stocked, toy_board, write_policy
from tests.waiting import PATIENCE_S, until
from toolchain.boards.board import Board
from toolchain.boards.ssh.transport import SshTransport
from toolchain.cli.rollouts.standing import RolloutStanding
from toolchain.events.rollouts import BoardCycled, BoardMoved, BoardOutcome, Rules
from toolchain.releases.export import Delivery
from toolchain.reports.rollout import rollout_page
from toolchain.rollouts.attempt import Job
from toolchain.rollouts.course import begin
from toolchain.rollouts.fleet import holders_of, status_of
from toolchain.rollouts.journal import Journal, read_journal
from toolchain.rollouts.ssh import Rollout

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("toys", "state")]
SIZE = 1_000_000


@dataclass
class Rack:
    """A server whose boards have the time of the toy releases, its supply, and a link to it."""

    server: Sshd
    supply: Supply
    link: Proxy

    def board_as_it_is(self) -> Board:
        """Return the board with a connection of its own; nothing is sent there."""
        root = self.supply.root
        return toy_board(root, transport=SshTransport(self.server.address(name=root.name), str(root)))

    def board(self, *, through: Proxy | None = None, **changed: object) -> Board:
        """Return the board in the folder that the supply knows; the installer is there."""
        root = self.supply.root
        at = self.server.address(name=root.name)
        stock = self.board_as_it_is()
        stocked(stock)
        stock.transport.close()
        reached = SshTransport(replace(at, port=through.port if through else at.port), str(root))
        return replace(stock, transport=reached, power=self.supply.commands(**changed))


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    with ExitStack() as stack:
        clock = f"SetEnv SHLVL=1 FIELD_NOW={NOW + 60}"
        server = stack.enter_context(sshd(tmp_path / "sshd", clock))
        supply = stack.enter_context(supplied(server, tmp_path / "rk"))
        yield Rack(server, supply, stack.enter_context(proxy(server.port)))


class Watched:
    """A job with what it told; `cut_in` names the step in which the board loses its power, once."""

    def __init__(
        self, rack: Rack, board: Board, given: Delivery, window_s: float = 60.0, cut_in: str = ""
    ) -> None:
        self.steps: list[str] = []
        self.cycled: list[BoardCycled] = []
        self._rack, self._cut_in = rack, cut_in
        self.job = Job(board, given, window_s, threading.Event(), self._listen)

    def finish(self) -> BoardOutcome:
        """Try until there is an outcome."""
        while (outcome := self.job.run()) is None:
            pass
        return outcome

    def _listen(self, event: BoardMoved | BoardCycled) -> None:
        if isinstance(event, BoardCycled):
            self.cycled.append(event)
            return
        self.steps.append(event.step)
        if event.step == self._cut_in:
            self._cut_in = ""
            self._rack.supply.switch("off")


@pytest.mark.parametrize("window_s", [60.0, 0.0])
def test_one_that_is_off_is_cycled_and_gets_the_release(rack: Rack, tmp_path: Path, window_s: float) -> None:
    watched = Watched(rack, rack.board(), delivery(tmp_path), window_s)
    rack.supply.switch("off")
    outcome = watched.finish()
    assert (outcome.state, outcome.power_cycles) == ("installed", 1), outcome
    assert rack.supply.switched == ["off", "on"]
    (event,) = watched.cycled
    assert event.board == "rk" and event.answered_s is not None and "is silent: power-cycled" in watched.steps


def test_one_that_loses_its_power_while_it_receives_goes_on(
    rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = rack.board(through=rack.link)
    rack.link.rate = 1e5
    watched = Watched(rack, board, delivery(tmp_path, padding=SIZE))
    results: list[BoardOutcome] = []
    thread = threading.Thread(target=lambda: results.append(watched.finish()))
    thread.start()
    incoming = rack.supply.root / "field" / APP / "incoming"
    until(lambda: any(file.stat().st_size > SIZE // 4 for file in incoming.glob("*")))
    rack.supply.switch("off")
    rack.link.rate = None
    with monkeypatch.context() as without_power:  # a board that has some may be slow
        # The link answers, and says nothing.
        without_power.setattr("toolchain.boards.ssh.connection.HANDSHAKE_S", 3.0)
        until(lambda: rack.supply.switched)
    thread.join(PATIENCE_S)
    assert [(each.state, each.power_cycles) for each in results] == [("installed", 1)], results
    assert results[0].bytes_sent < 1.9 * SIZE, "what was received before the cut is not sent again"


def test_one_that_loses_its_power_while_it_installs_is_asked_and_goes_on(rack: Rack, tmp_path: Path) -> None:
    board = rack.board()
    assert Watched(rack, board, delivery(tmp_path, "1.0.0")).finish().state == "installed"
    write_policy(rack.supply.root, health=["sleep", "15"])  # the new release is active, and not committed
    watched = Watched(rack, board, delivery(tmp_path, "2.0.0"), cut_in="health")
    quick = threading.Thread(target=_shorten_health, args=(rack,))
    quick.start()
    outcome = watched.finish()
    quick.join(60)
    assert watched.steps.count("health") == 2, "the board undid what was cut, and installed it again"
    assert (outcome.state, outcome.version, outcome.power_cycles) == ("installed", "2.0.0", 1), outcome
    status = status_of(board)
    app = status.find(APP) if status else None
    assert app is not None and (app.state, app.version) == ("active", "2.0.0")


def test_a_board_that_installs_says_so(rack: Rack, tmp_path: Path) -> None:
    board = rack.board()
    write_policy(rack.supply.root, health=["sleep", "600"], health_tries=1)
    assert holders_of(board, ["rk"]) == []
    watched = Watched(rack, board, delivery(tmp_path))
    thread = threading.Thread(target=watched.job.run)
    thread.start()
    until(lambda: "health" in watched.steps)
    other = rack.board_as_it_is()
    (said,) = holders_of(other, ["rk"])
    assert said.startswith("a rollout: install") and "(process " in said
    other.transport.close()
    rack.supply.switch("off")
    assert holders_of(rack.board_as_it_is(), ["rk"]) == [], "a silent board cannot be asked"
    watched.job.stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def _shorten_health(rack: Rack) -> None:
    until(lambda: rack.supply.switched)
    write_policy(rack.supply.root, health=["true"])


def test_a_short_silence_is_none(rack: Rack, tmp_path: Path) -> None:
    watched = Watched(rack, rack.board(silent_s=600), delivery(tmp_path), window_s=3)
    rack.supply.switch("off")
    outcome = watched.finish()
    assert (outcome.state, outcome.power_cycles) == ("offline", 0)
    assert rack.supply.switched == [] and watched.cycled == []


def test_one_that_was_cycled_a_moment_ago_waits_and_says_so(rack: Rack, tmp_path: Path) -> None:
    board, given = rack.board(between_s=600), delivery(tmp_path)
    rack.supply.switch("off")
    assert Watched(rack, board, given).finish().state == "installed"
    rack.supply.switch("off")
    outcome = Watched(rack, board, given, window_s=3).finish()
    assert (outcome.state, outcome.power_cycles) == ("offline", 0)
    assert outcome.error is not None and "Connection refused" in outcome.error
    assert "; board rk is silent, and was power-cycled" in outcome.error
    assert rack.supply.switched == ["off", "on"]


def test_one_that_refuses_is_never_cycled(rack: Rack, tmp_path: Path) -> None:
    board = rack.board()
    (rack.server.folder / "authorized_keys").write_text("")
    outcome = Watched(rack, board, delivery(tmp_path)).finish()
    assert (outcome.state, outcome.power_cycles) == ("failed", 0)
    assert rack.supply.switched == []


def test_a_broken_link_to_a_board_that_answers_is_no_silence(rack: Rack, tmp_path: Path) -> None:
    board = rack.board(through=rack.link)
    rack.link.cut_after = SIZE // 2
    outcome = Watched(rack, board, delivery(tmp_path, padding=SIZE)).finish()
    assert (outcome.state, outcome.power_cycles) == ("installed", 0)
    assert rack.supply.switched == []


def test_one_that_stays_away_is_offline_and_cycled_once(rack: Rack, tmp_path: Path) -> None:
    (rack.server.folder / "broken").touch()
    watched = Watched(rack, rack.board(boot_s=0.5), delivery(tmp_path), window_s=5)
    rack.supply.switch("off")
    outcome = watched.finish()
    assert (outcome.state, outcome.power_cycles) == ("offline", 1)
    assert rack.supply.switched == ["off", "on"]
    (event,) = watched.cycled
    assert event.answered_s is None and "did not answer" in event.text


def test_a_rollout_tells_it_and_its_journal_keeps_it(rack: Rack, tmp_path: Path) -> None:
    board, given = rack.board(), delivery(tmp_path)
    rack.supply.switch("off")
    with Journal(tmp_path / "journal.jsonl") as journal:
        rollout = Rollout(begin(given.signed, [board], Rules()), given, threading.Event())
        events = [*journal.keep(rollout.run())]
    assert rollout.outcomes["rk"].works and rollout.outcomes["rk"].power_cycles == 1
    (told,) = [event for event in events if isinstance(event, BoardCycled)]
    assert told in read_journal(journal.path)
    assert "<td>installed, power-cycled 1x</td>" in rollout_page(read_journal(journal.path))
    standing = RolloutStanding()
    lines = [standing.take(event) for event in events]
    assert standing.all_work
    assert told.text in lines
    assert any(line and "rk: installed 2.0.0" in line and "power-cycled 1x" in line for line in lines)


def test_one_that_is_being_switched_has_power_when_a_rollout_is_broken_off(
    rack: Rack, tmp_path: Path
) -> None:
    board, given = rack.board(pause_s=1), delivery(tmp_path)
    rack.supply.switch("off")

    with (
        Journal(tmp_path / "journal.jsonl") as journal,
        closing(Rollout(begin(given.signed, [board], Rules()), given, threading.Event()).run()) as events,
    ):
        for event in journal.keep(events):
            if isinstance(event, BoardMoved) and event.step == "is silent: power-cycled":
                until(lambda: rack.supply.switched)
                break  # the second Ctrl-C
    assert rack.supply.switched == ["off", "on"]
