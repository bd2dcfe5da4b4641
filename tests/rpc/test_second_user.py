"""What another user of this machine gets from a lab that runs: nothing."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.rpc import fake_server as fake
from tests.rpc.second_user import answers, as_second_user, entered, needs_a_second_user
from toolchain.boards.inventory.lookup import local_board
from toolchain.rpc import lab, packets
from toolchain.rpc.frames import HOST
from toolchain.rpc.gate import Gate

pytestmark = pytest.mark.slow


@pytest.fixture
def running(state: Path) -> Iterator[tuple[lab.LabStatus, Path]]:
    needs_a_second_user()
    # The folders above must not be what keeps others out.
    for folder in state.parents:
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    umask = os.umask(0)
    try:
        yield lab.start([local_board()]), state
    finally:
        os.umask(umask)
        lab.stop()


def _ports(state: Path) -> set[int]:
    """Return where the lab's processes and its boards' listen, from /proc."""
    found = set()
    for process in psutil.process_iter():
        try:
            if str(state) in process.cwd() or str(state) in " ".join(process.cmdline()):
                found |= {c.laddr.port for c in process.net_connections("tcp") if c.status == "LISTEN"}
        except psutil.Error:
            continue
    return found


def test_ports_answer_their_owner_alone(running: tuple[lab.LabStatus, Path]) -> None:
    status, state = running
    ports = _ports(state)
    assert status.port in ports
    assert len(ports) == 4  # the tracker, the board's door, its gate and its server
    assert as_second_user(lambda: {port: answers(port) for port in ports}) == dict.fromkeys(ports, b"")
    assert answers(status.port) != b""


def test_folders_and_the_control_socket_are_closed(running: tuple[lab.LabStatus, Path]) -> None:
    _, state = running
    folders = [state / "lab", state / "lab" / "log", state / "boards" / "local"]
    assert as_second_user(lambda: [entered(folder) for folder in folders]) == [[], [], []]
    assert all(entered(folder) for folder in folders)

    def ask() -> str:
        with socket.socket(socket.AF_UNIX) as channel:
            try:
                channel.connect(str(state / "lab" / "control.sock"))
            except OSError as error:
                return type(error).__name__
        return "connected"

    assert as_second_user(ask) == "PermissionError"


def test_a_control_socket_in_an_open_folder_still_asks_who_comes(
    running: tuple[lab.LabStatus, Path],
) -> None:
    _, state = running
    for opened in (state, state / "lab", state / "lab" / "control.sock"):
        opened.chmod(0o777)

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(60)
            channel.connect(str(state / "lab" / "control.sock"))
            try:
                channel.sendall(b'{"do": "status"}\n')
                return channel.recv(4096)
            except ConnectionError:
                return b""

    assert as_second_user(ask) == b""
    assert b'"boards"' in ask()


def test_a_server_of_another_user_is_none_of_ours() -> None:
    needs_a_second_user()
    with socket.create_server((HOST, 0)) as listener:
        address = listener.getsockname()

        def impersonate() -> None:
            connection, _ = listener.accept()
            fake.lie(connection, fake.VOID)

        other = threading.Thread(target=as_second_user, args=(impersonate,))
        other.start()
        told: list[str] = []
        gate = Gate("board b: its server", lambda: socket.create_connection(address), told.append)
        with socket.create_connection((HOST, gate.port), timeout=60) as client:
            client.sendall(struct.pack("<ii", packets.MAGIC, 8) + b"client:x")
            assert client.recv(100) == b""
        gate.close()
        gate.join()
        other.join(30)
    assert told == []  # that is not the board's doing
