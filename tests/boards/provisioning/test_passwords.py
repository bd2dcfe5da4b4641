"""Passwords are turned off and on at a real sshd, by a drop-in file beside its own configuration."""

from __future__ import annotations

import getpass
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import psutil
import pytest

from tests.boards.ssh.sshd import Sshd, libraries, sshd
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.provisioning import How, PasswordChange, passwords, set_passwords
from toolchain.boards.ssh.transport import SshTransport
from toolchain.errors import ToolchainError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
NOW = How()


@contextmanager
def server(folder: Path, *options: str, include: bool = True) -> Iterator[Sshd]:
    """Run a server that takes passwords, and whose libraries and programs its sessions find."""
    lines = [f"Include {folder}/sshd_config.d/*.conf"] if include else []
    finds = f"SetEnv LD_LIBRARY_PATH={libraries()}"
    with sshd(folder, *lines, *options, "PasswordAuthentication yes", finds) as at:
        yield at


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Sshd]:
    with server(tmp_path / "sshd") as at:
        yield at


@contextmanager
def board_of(at: Sshd) -> Iterator[Board]:
    with closing(SshTransport(at.address(), str(at.root))) as transport:
        yield replace(local_board(), name="bench", transport=transport)


def offered(at: Sshd) -> list[str]:
    """Return the ways in which the server lets a login begin."""
    with closing(paramiko.Transport(("127.0.0.1", at.port))) as client:
        client.start_client(timeout=30)
        with pytest.raises(paramiko.BadAuthenticationType) as refused:
            client.auth_none(getpass.getuser())
        return sorted(refused.value.allowed_types)


def takes_passwords(at: Sshd) -> bool:
    """Whether it does; no while it reads its configuration anew."""
    try:
        return offered(at) == ["password", "publickey"]
    except (paramiko.SSHException, OSError, EOFError):
        return False


def drop_ins(at: Sshd) -> list[str]:
    folder = at.folder / "sshd_config.d"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_off_and_on_and_each_only_once(running: Sshd) -> None:
    file = str(running.folder / "sshd_config.d" / "00-edge-toolchain.conf")
    with board_of(running) as board:
        assert set_passwords(board, "off", How(dry_run=True)) == PasswordChange("off", None, changed=False)
        assert offered(running) == ["password", "publickey"] and drop_ins(running) == []
        assert set_passwords(board, "off", NOW) == PasswordChange("off", file, changed=True)
        assert offered(running) == ["publickey"] and drop_ins(running) == ["00-edge-toolchain.conf"]
        assert not set_passwords(board, "off", NOW).changed
        assert set_passwords(board, "on", NOW) == PasswordChange("on", file, changed=True)
        assert offered(running) == ["password", "publickey"]
        assert drop_ins(running) == []
        assert not set_passwords(board, "on", NOW).changed


def test_a_server_without_drop_ins_is_left_alone(tmp_path: Path) -> None:
    with (
        server(tmp_path / "sshd", include=False) as at,
        board_of(at) as board,
        pytest.raises(UsageError, match="includes no drop-in files; nothing was changed"),
    ):
        set_passwords(board, "off", NOW)
    assert drop_ins(at) == []


def test_a_configuration_that_has_its_way_first_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "sshd"
    with server(folder) as at, board_of(at) as board:
        config = folder / "sshd_config"
        config.write_text("PasswordAuthentication yes\n" + config.read_text())
        with pytest.raises(ToolchainError, match="allows passwords in spite of"):
            set_passwords(board, "off", NOW)
        config.write_text(config.read_text() + "Nonsense\n")
        with pytest.raises(ToolchainError, match="sshd -t finds fault"):
            set_passwords(board, "off", NOW)
        assert drop_ins(at) == []


def test_passwords_stay_off_where_the_server_would_not_start_again(running: Sshd) -> None:
    with board_of(running) as board:
        assert set_passwords(board, "off", NOW).changed
        config = running.folder / "sshd_config"
        config.write_text(config.read_text() + "Nonsense\n")
        with pytest.raises(ToolchainError, match="sshd -t finds fault"):
            set_passwords(board, "on", NOW)
        assert drop_ins(running) == ["00-edge-toolchain.conf"]


def test_what_locks_the_key_out_is_undone(running: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drop-in also forbids keys here: the second login fails, and the open connection undoes it."""
    monkeypatch.setattr(passwords, "_CONTENT", passwords._CONTENT + "AuthorizedKeysFile /none\n")
    with board_of(running) as board, pytest.raises(ToolchainError, match="that was undone"):
        set_passwords(board, "off", NOW)
    monkeypatch.undo()
    until(lambda: takes_passwords(running))
    assert drop_ins(running) == []
    with board_of(running) as board:
        board.transport.run(["true"])


def test_no_login_proves_anything_before_the_server_has_read_it_anew(
    running: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, prove = passwords._SCRIPT, passwords._prove_key
    slow = script.replace('kill -HUP "$server"', 'kill -STOP "$server"; kill -HUP "$server"')
    assert slow != script
    proved: list[bool] = []  # whether the server went on before that proof
    goes_on = threading.Event()

    def go_on() -> None:
        server = psutil.Process(running.process.pid)
        until(lambda: server.status() == psutil.STATUS_STOPPED)
        time.sleep(1)  # in which nothing may be proved
        goes_on.set()
        running.process.send_signal(signal.SIGCONT)

    def noted(*arguments: Any) -> None:
        proved.append(goes_on.is_set())
        prove(*arguments)

    monkeypatch.setattr(passwords, "_SCRIPT", slow)
    monkeypatch.setattr(passwords, "_prove_key", noted)
    with board_of(running) as board, ThreadPoolExecutor(1) as later:
        going_on = later.submit(go_on)
        assert set_passwords(board, "off", NOW).changed
        going_on.result()
    assert proved == [False, True] and offered(running) == ["publickey"]


def test_a_host_that_goes_away_before_the_proof_leaves_the_board_as_it_was(
    running: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs = iter([None, KeyboardInterrupt()])

    def prove(*_: object) -> None:
        if error := next(proofs):
            assert drop_ins(running) == ["00-edge-toolchain.conf"]
            raise error

    monkeypatch.setattr(passwords, "_prove_key", prove)
    with pytest.raises(KeyboardInterrupt), board_of(running) as board:
        set_passwords(board, "off", NOW)
    until(lambda: drop_ins(running) == [])
    until(lambda: takes_passwords(running))


def test_no_key_and_no_login_change_nothing(running: Sshd) -> None:
    with pytest.raises(UsageError, match="reached without a login"):
        set_passwords(local_board(), "off", NOW)
    with board_of(running) as board:
        board.transport.run(["true"])
        (running.folder / "authorized_keys").write_text("")  # the open connection stays
        with pytest.raises(UsageError, match="none of your keys is accepted"):
            set_passwords(board, "off", NOW)
    assert drop_ins(running) == []
