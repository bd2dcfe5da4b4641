"""A silent board is power-cycled within its limits; one that answers or refuses never is."""

from __future__ import annotations

import getpass
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.boards.power.supply import Supply, supplied
from tests.boards.ssh.sshd import Sshd, free_port, make_key, sshd
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.power import cycles as answers
from toolchain.boards.power.cycles import LimitError, PowerCycles, silence_of, wait_until_answers
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@dataclass
class Rack:
    """A server with a supply, which is a board."""

    server: Sshd
    supply: Supply

    def board(self, **changed: object) -> Board:
        transport = SshTransport(self.server.address(name="rk"), str(self.server.root))
        return replace(local_board(), name="rk", transport=transport, power=self.supply.commands(**changed))


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    with ExitStack() as stack:
        server = stack.enter_context(sshd(tmp_path / "sshd"))
        yield Rack(server, stack.enter_context(supplied(server, server.root)))


def revive(cycles: PowerCycles, board: Board) -> object:
    return cycles.revive(board, threading.Event())


def test_silent_board_is_cycled_once(rack: Rack) -> None:
    board, cycles = rack.board(), PowerCycles()
    assert silence_of(board) is None and revive(cycles, board) is None
    assert rack.supply.switched == [] and cycles.counts == {}
    rack.supply.switch("off")
    assert isinstance(silence_of(board), LostError)
    cycle = cycles.revive(board, threading.Event())
    assert rack.supply.switched == ["off", "on"] and cycles.counts == {"rk": 1}
    assert cycle is not None and cycle.answered_s is not None and cycle.error == ""
    assert "board rk was silent (" in cycle.text and "power-cycled: it answers again after" in cycle.text
    assert silence_of(board) is None


def test_hanging_board_is_silent(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.boards.ssh.connection.HANDSHAKE_S", 6.0)
    board = rack.board()
    rack.server.process.send_signal(signal.SIGSTOP)
    assert "no SSH server answered" in str(silence_of(board))
    cycle = PowerCycles().revive(board, threading.Event())
    assert cycle is not None and cycle.error == "" and silence_of(board) is None


def test_refusing_or_other_board_is_not_cycled(rack: Rack, tmp_path: Path) -> None:
    (rack.server.folder / "authorized_keys").write_text("")
    refusing = rack.board()
    address = replace(rack.server.address(name="rk"), host_key=make_key(tmp_path / "another"))
    other = replace(refusing, transport=SshTransport(address, "."))
    for board in (refusing, other):
        assert silence_of(board) is None and revive(PowerCycles(), board) is None
    assert rack.supply.switched == []


def test_broken_route_does_not_make_board_silent(rack: Rack) -> None:
    jump = f"{getpass.getuser()}@127.0.0.1:{free_port()}"
    for address in (
        replace(rack.server.address(name="rk"), jump=jump),
        replace(rack.server.address(name="rk"), host="no-such-host.invalid"),
    ):
        board = replace(rack.board(), transport=SshTransport(address, "."))
        assert silence_of(board) is None, "the jump is away, or no network is there"
        with pytest.raises(LostError):
            answers.ask_boot(board)


def test_the_limits_of_a_run(rack: Rack) -> None:
    board, cycles = rack.board(most_cycles=2), PowerCycles()
    told = []
    for _ in range(2):
        rack.supply.switch("off")
        cycle = cycles.revive(board, threading.Event())
        assert cycle is not None
        told.append(cycle.text.endswith("; it is not power-cycled again in this run"))
    assert told == [False, True]
    rack.supply.switch("off")
    assert not cycles.may_revive(board)
    with pytest.raises(
        LimitError, match="not power-cycled again in this run: that was done 2 times"
    ) as raised:
        revive(cycles, board)
    assert raised.value.for_good
    assert revive(PowerCycles(), board), "another run has limits of its own"


def test_the_time_between_two_cycles_counts_for_all_commands(
    rack: Rack, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Late in one second: the time of the first cycle, rounded up, would lie in the future.
    clock = SimpleNamespace(time=lambda: 1_800_000_000.9, monotonic=time.monotonic)
    monkeypatch.setattr("toolchain.boards.power.cycles.time", clock)
    board = rack.board(between_s=600)
    rack.supply.switch("off")
    assert revive(PowerCycles(), board)
    rack.supply.switch("off")
    with pytest.raises(LimitError, match=r"was power-cycled \d+ s ago: not again before \d+ s") as raised:
        revive(PowerCycles(), board)
    assert not raised.value.for_good and rack.supply.switched == ["off", "on"]


def test_several_commands_cycle_it_once(rack: Rack) -> None:
    rack.supply.switch("off")
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(revive(PowerCycles(), rack.board()))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert rack.supply.switched == ["off", "on"]
    assert sum(each is not None for each in found) == 1 and len(found) == 3


def test_board_that_stays_silent_is_given_up(rack: Rack) -> None:
    (rack.server.folder / "broken").touch()
    board, cycles = rack.board(boot_s=0.5, most_cycles=9), PowerCycles()
    rack.supply.switch("off")
    cycle = cycles.revive(board, threading.Event())
    assert cycle is not None and cycle.answered_s is None
    assert "board rk did not answer within 0.5 s after it was switched: " in cycle.text
    with pytest.raises(LimitError, match="that did not help"):
        revive(cycles, board)


def test_a_command_that_fails_is_told_and_not_tried_again(rack: Rack) -> None:
    rack.supply.switch("off")
    board = rack.board()
    board = replace(board, power=board.power.model_copy(update={"off": ("false",)}))
    cycles = PowerCycles()
    cycle = cycles.revive(board, threading.Event())
    assert cycle is not None and "its command for power off, false, ended with exit code 1" in cycle.text
    assert not cycles.may_revive(board)


def test_waiting_ends_when_it_is_stopped(rack: Rack) -> None:
    rack.supply.switch("off")
    (rack.server.folder / "broken").touch()
    stop, found = threading.Event(), []
    thread = threading.Thread(target=lambda: found.append(PowerCycles().revive(rack.board(), stop)))
    thread.start()
    until(lambda: rack.supply.switched == ["off", "on"])
    stop.set()
    thread.join(60)
    assert [each.answered_s for each in found] == [None] and "nobody waited" in found[0].text
    stopped = threading.Event()
    stopped.set()
    assert PowerCycles().revive(rack.board(), stopped) is None
    assert rack.supply.switched == ["off", "on"]


def test_the_same_boot_is_an_answer_only_after_a_while(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SETTLE_S", 0.5)
    board = rack.board()
    boot = answers.ask_boot(board)
    answered = wait_until_answers(board, 30, before=boot)
    assert answered is not None and answered.seconds >= 0.5 and answered.restarted is False
    other = wait_until_answers(board, 30, before="another")
    assert other is not None and other.restarted is True
    unknown = wait_until_answers(board, 30)
    assert unknown is not None and unknown.restarted is None


def test_permanent_errors_are_not_waited_for(rack: Rack, tmp_path: Path) -> None:
    address = replace(rack.server.address(name="rk"), host_key=make_key(tmp_path / "another"))
    board = replace(rack.board(), transport=SshTransport(address, "."))
    with pytest.raises(UsageError, match="host key"):
        wait_until_answers(board, 600)
    (rack.server.folder / "authorized_keys").write_text("")
    with pytest.raises(ToolchainError, match=r"did not answer within 0\.3 s .*accepted"):
        wait_until_answers(rack.board(), 0.3)  # as systemd refuses logins while a system comes up
