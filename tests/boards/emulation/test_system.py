"""Boards that are whole machines: refused with a reason, or there with a kernel, systemd and a disk."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.machines.programs import path_with_qemu
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.emulation.system.board import is_running
from toolchain.boards.emulation.system.initrd import write_initrd
from toolchain.boards.emulation.system.machine import SOCKET, control
from toolchain.errors import MissingError, ToolchainError, UsageError


@pytest.mark.usefixtures("state")
def test_a_class_without_machines_is_refused() -> None:
    with pytest.raises(UsageError, match="pynq: there are no machines for armv7a boards"):
        emulated.start("pynq", "system")
    with pytest.raises(UsageError, match="a board that is a machine has no driver"):
        emulated.start("rk3399", "system", device="opencl")
    assert stored.names() == []


def test_missing_programs_name_packages(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(state / "cache"))
    with pytest.raises(MissingError, match=r"no 'qemu-.*--kind system") as raised:
        emulated.start("rk3399", "system")
    for package in ("qemu-system-arm", "qemu-utils", "e2fsprogs", "mmdebstrap"):
        assert package in raised.value.hint
    assert stored.names() == []


def test_an_initial_system_is_a_cpio_archive(tmp_path: Path) -> None:
    write_initrd(tmp_path / "initrd", b"busy", {"ext4": b"module", "last": b""})
    data = gzip.decompress((tmp_path / "initrd").read_bytes())
    found, at = {}, 0
    while at < len(data):  # cpio(5), "newc"
        assert data[at : at + 6] == b"070701" and at % 4 == 0
        mode, size, name_size = (int(data[at + o : at + o + 8], 16) for o in (14, 54, 94))
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        begin = (at + 110 + name_size + 3) & ~3
        found[name] = (mode, data[begin : begin + size])
        at = (begin + size + 3) & ~3
    assert found["bin/busybox"] == (0o100755, b"busy") and found["modules/ext4.ko"] == (0o100644, b"module")
    assert found["modules/order"][1] == b"ext4\nlast\n" and found["init"][1].startswith(b"#!/bin/busybox sh")
    assert list(found)[-1] == "TRAILER!!!"


def test_a_control_socket_in_a_deep_folder_tells_who_serves_it(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    with control(folder) as nobody:
        assert nobody is None
    handle = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{handle}/{SOCKET}")
        os.close(handle)
        server.listen()
        speaker = threading.Thread(target=_speak, args=(server,))
        speaker.start()
        with control(folder) as running:
            assert running is not None and running.life.pid == os.getpid()
            assert running.execute("query-status") == {"running": True}
            with pytest.raises(ToolchainError, match="QEMU refuses stop: not now"):
                running.execute("stop")
            with pytest.raises(ToolchainError, match="QEMU does not answer quit"):
                running.execute("quit")
        speaker.join()
    with control(folder) as nobody:
        assert nobody is None, "a socket without a server is no machine"


def _speak(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b'{"QMP": {}}\n')
        for answer in (
            b'{"return": {}}\n',
            b'{"event": "RESUME"}\n{"return": {"running": true}}\n',
            b'{"error": {"desc": "not now"}}\n',
        ):
            connection.recv(4096)
            connection.sendall(answer)
        connection.recv(4096)


@pytest.fixture
def machine(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    assert not state.exists()
    monkeypatch.setenv("PATH", path_with_qemu())
    emulated.start("rk3399", "system", name="box")
    yield "box"
    if "box" in stored.names():
        emulated.stop("box")


def _said(board: Board, command: str) -> str:
    done = board.transport.run(["sh", "-c", command], timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


@pytest.mark.full
def test_a_machine_is_a_board_that_survives_a_cut(machine: str, state: Path) -> None:
    folder = state / "emulated" / machine
    assert emulated.kind(machine) == "system" and emulated.condition(machine) == "ready"
    board = emulated.load(machine)
    with closing(board.transport):
        assert (
            _said(board, "cat /proc/1/comm; uname -m; id -un; sudo -n id -un")
            == "systemd\naarch64\nedge\nroot"
        )
        assert _said(board, "sudo -n systemctl is-system-running") == "running"
        assert '"asimd"' in _said(board, "./edge-rt info")
        assert _said(board, "echo kept >kept; sync kept; sync .; stat -c %U kept") == "edge"
        with control(folder) as running:
            assert running is not None
            running.life.signal(signal.SIGKILL)
            assert running.life.ends_within(60)
    assert emulated.condition(machine) == "stopped"
    assert emulated.start("rk3399", "system", name=machine).name == machine
    board = emulated.load(machine)
    with closing(board.transport):
        assert _said(board, "cat kept") == "kept"
    emulated.stop(machine)
    assert not is_running(folder) and not folder.exists()
    listed = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert not [line for line in listed.splitlines() if "qemu-system" in line and str(folder) in line]
