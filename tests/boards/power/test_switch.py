"""A board's power commands: which are run, in which order, and what is said when one fails."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import free_port
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.power.switch import power_of, switch
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError
from toolchain.configuration.power import PowerCommands
from toolchain.errors import MissingError, ToolchainError, UsageError

pytestmark = pytest.mark.usefixtures("state")
WORD = "s3cret"


def board(power: PowerCommands | None) -> Board:
    away = SshAddress("127.0.0.1", free_port(), "me", "ssh-ed25519 AAAA", name="rk")
    return replace(local_board(), name="rk", transport=SshTransport(away, "."), power=power)


def noting(file: Path, word: str, then: str = "") -> list[str]:
    return ["sh", "-c", f"echo {word} >>{file}; {then}", WORD]


def test_the_command_for_cycle_goes_before_off_and_on(tmp_path: Path) -> None:
    file = tmp_path / "said"
    both = {"on": noting(file, "on"), "off": noting(file, "off"), "pause_s": 0}
    with_cycle = board(PowerCommands(**both, cycle=noting(file, "cycle")))
    for action in ("on", "off", "cycle"):
        switch(with_cycle, action)
    assert file.read_text().split() == ["on", "off", "cycle"]
    file.unlink()
    switch(board(PowerCommands(**both)), "cycle")
    assert file.read_text().split() == ["off", "on"]


@pytest.mark.slow
def test_between_off_and_on_is_a_pause(tmp_path: Path) -> None:
    power = PowerCommands(on=noting(tmp_path / "x", "on"), off=noting(tmp_path / "x", "off"), pause_s=0.4)
    begun = time.monotonic()
    switch(board(power), "cycle")
    assert time.monotonic() - begun >= 0.4


@pytest.mark.slow
@pytest.mark.parametrize("then", ["exit 3", "sleep 600"])
def test_a_board_is_not_left_off_when_off_fails(tmp_path: Path, then: str) -> None:
    file = tmp_path / "said"
    power = PowerCommands(on=noting(file, "on"), off=noting(file, "off", then), pause_s=0, timeout_s=3)
    with pytest.raises(ToolchainError, match="command for power off"):
        switch(board(power), "cycle")
    assert file.read_text().split() == ["off", "on"]


@pytest.mark.slow
def test_a_failure_has_the_programs_name_its_words_and_no_argument() -> None:
    power = PowerCommands(cycle=["sh", "-c", "echo 'no \x1b[31mrelay' >&2; exit 3", WORD])
    with pytest.raises(ToolchainError) as raised:
        switch(board(power), "cycle")
    assert raised.value.message == (
        "board rk: its command for power cycle, sh, ended with exit code 3: no \\x1b[31mrelay"
    )
    with pytest.raises(DeadlineError, match=r"sh, did not end within 0\.3 s and was killed") as late:
        switch(board(PowerCommands(cycle=["sh", "-c", "sleep 600", WORD])), "cycle", 0.3)
    with pytest.raises(MissingError, match=r"no-such-relay: there is no such program") as missing:
        switch(board(PowerCommands(cycle=["/opt/no-such-relay", WORD])), "cycle")
    assert all(WORD not in str(each.value) for each in (raised, late, missing))


def test_refuses_action_without_command() -> None:
    with pytest.raises(UsageError, match="board rk has no command to switch it off, only sh to cycle it"):
        switch(board(PowerCommands(cycle=["sh"])), "off")
    with pytest.raises(UsageError, match="board rk has no power commands") as none:
        power_of(board(None))
    assert "[boards.rk]" in none.value.hint
    with pytest.raises(UsageError, match="is this machine"):
        power_of(local_board())
    with pytest.raises(UsageError, match="is emulated") as emulated:
        power_of(replace(local_board(), name="e", emulated=True))
    assert "emulate stop e" in emulated.value.hint


def test_no_text_of_the_commands_has_their_arguments() -> None:
    power = PowerCommands(on=["relay", WORD], off=["relay", WORD])
    assert WORD not in f"{power!r} {power} {board(power)!r}"
    assert power.program("on") == "relay" and power.program("cycle") is None
