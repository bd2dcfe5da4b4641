"""Places of a real labgrid coordinator: acquired, shared, waited for, released, and switched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.labgrid.coordinator import BIN, PLACE, Coordinator, coordinator
from tests.boards.power.supply import supplied
from tests.boards.ssh.sshd import Sshd, free_port, sshd
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.labgrid import client
from toolchain.boards.labgrid import client as places
from toolchain.boards.labgrid.client import check_held, held_places, place_power
from toolchain.boards.power.cycles import PowerCycles
from toolchain.boards.power.switch import switch
from toolchain.boards.ssh.transport import SshTransport
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.errors import MissingError, ToolchainError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    with coordinator(tmp_path_factory.mktemp("labgrid") / "c") as running:
        yield running


@pytest.fixture
def rack(running: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    """The coordinator, whose place nobody holds; the client is on the PATH."""
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    monkeypatch.setattr(places, "_LOOK_S", 0.2)
    running.switched.clear()
    yield running
    if running.holder():
        running.client("release", "--kick")


def board(place: LabgridPlace | None) -> Board:
    return replace(local_board(), name="rk", place=place)


def test_a_place_is_held_while_it_is_used(rack: Coordinator) -> None:
    said: list[str] = []
    with held_places([board(rack.place()), board(None)], None, said.append):
        assert rack.holder()
        check_held([board(rack.place())])
    assert rack.holder() == "" and said == []
    with pytest.raises(ToolchainError, match=f"nobody holds its place {PLACE}"):
        check_held([board(rack.place())])


def test_place_is_released_after_error(rack: Coordinator) -> None:
    with pytest.raises(ZeroDivisionError), held_places([board(rack.place())], None, print):
        raise ZeroDivisionError
    assert rack.holder() == ""


def test_place_held_before_is_not_released(rack: Coordinator) -> None:
    rack.client("acquire")
    with held_places([board(rack.place())], None, print):
        pass
    assert rack.holder()


def test_error_names_holder_of_place(rack: Coordinator) -> None:
    rack.client("acquire", user="berta")
    begun = time.monotonic()
    with pytest.raises(ToolchainError) as raised, held_places([board(rack.place())], None, print):
        pass
    assert time.monotonic() - begun < 100
    where = f"its place {PLACE} of the labgrid coordinator {rack.address}"
    said = f"board rk: {where} is held by berta on desk since 2"
    assert raised.value.message.startswith(said) and "wait_s" in raised.value.hint
    assert rack.holder() == "berta desk"
    rack.client("release", user="berta")


@pytest.mark.parametrize(("wait_s", "own_wait_s"), [(60.0, 0.0), (None, 60.0)])
def test_waits_for_place_held_by_another(rack: Coordinator, wait_s: float | None, own_wait_s: float) -> None:
    rack.client("acquire", user="berta")
    said: list[str] = []
    waiting = threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        waiting.set()

    def give_way() -> None:
        waiting.wait(60)
        rack.client("release", user="berta")

    thread = threading.Thread(target=give_way)
    thread.start()
    with held_places([board(rack.place(wait_s=own_wait_s))], wait_s, tell):
        assert rack.holder() not in ("", "berta desk")
    thread.join(60)
    assert rack.holder() == ""
    (text,) = said
    assert text.startswith(f"waiting for place {PLACE} of board rk: berta on desk since ")


def test_two_commands_share_it_and_the_last_one_releases_it(rack: Coordinator) -> None:
    with held_places([board(rack.place())], None, print):
        with held_places([board(rack.place())], None, print):
            assert rack.holder()
        assert rack.holder(), "the first one still uses it"
    assert rack.holder() == ""


HOLDS = """
import sys, time
from dataclasses import replace
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.labgrid.client import held_places
from toolchain.configuration.labgrid import LabgridPlace
place = LabgridPlace(coordinator=sys.argv[1], place=sys.argv[2])
with held_places([replace(local_board(), name="rk", place=place)], None, print):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_interrupted_releases_it_and_what_a_killed_one_left_the_next_one_does(
    rack: Coordinator, number: signal.Signals
) -> None:
    argv = [sys.executable, "-c", HOLDS, rack.address, PLACE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        assert rack.holder()
        child.send_signal(number)
        child.wait(60)
    if number is signal.SIGKILL:
        assert rack.holder(), "nobody was there to release it"
        with held_places([board(rack.place())], None, print):
            pass
    until(lambda: rack.holder() == "")


def test_refuses_place_that_cannot_be_acquired(rack: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(UsageError, match="has no place rack") as none,
        held_places([board(rack.place("rack"))], None, print),
    ):
        pass
    assert PLACE in none.value.hint, "the client would have taken a part of the name"
    away = LabgridPlace(coordinator=f"127.0.0.1:{free_port()}", place=PLACE)
    monkeypatch.setattr(client, "_ASK_S", 20.0)
    with pytest.raises(ToolchainError, match=away.coordinator), held_places([board(away)], None, print):
        pass
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        pytest.raises(MissingError, match="no labgrid-client") as missing,
        held_places([board(rack.place())], None, print),
    ):
        pass
    assert "pipx install labgrid" in missing.value.hint


def test_labgrid_switches_a_place_that_is_ours(rack: Coordinator) -> None:
    held = replace(board(rack.place()), power=place_power(rack.place()))
    with pytest.raises(
        ToolchainError, match=f"labgrid-client, ended with exit code 1: .*{PLACE} is not acquired"
    ):
        switch(held, "off")
    with held_places([held], None, print):
        switch(held, "off")
        switch(held, "cycle")
    assert rack.switched == [False, False, True]


def test_a_silent_board_is_revived_by_labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    with ExitStack() as stack:
        server: Sshd = stack.enter_context(sshd(tmp_path / "sshd"))
        supply = stack.enter_context(supplied(server, server.root))
        rack = stack.enter_context(
            coordinator(tmp_path / "c", lambda on: supply.switch("on" if on else "off"))
        )
        transport = SshTransport(server.address(name="rk"), str(server.root))
        revived = replace(
            local_board(), name="rk", transport=transport, place=rack.place(), power=place_power(rack.place())
        )
        supply.switch("off")
        stack.enter_context(held_places([revived], None, print))
        cycle = PowerCycles().revive(revived, threading.Event())
        assert cycle is not None and cycle.answered_s is not None, cycle
        assert rack.switched == [False, True]
