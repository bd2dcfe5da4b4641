"""Starts QEMU's system mode for a board, and ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolchain.boards.emulation.qemu import emulated_cpu
from toolchain.errors import MissingError, ToolchainError
from toolchain.foreign import last_line
from toolchain.processes.interrupts import uninterrupted
from toolchain.processes.life import Life
from toolchain.profiles import Profile

# QEMU's control socket: a line of JSON for each command and answer.

SOCKET = "qmp"  # in the machine's folder
_SECONDS = 30.0


class Control:
    """A connection to a running QEMU.

    Attributes
    ----------
    life
        The process of QEMU.
    """

    def __init__(self, connection: socket.socket, life: Life) -> None:
        self.life = life
        self._connection = connection
        self._lines = connection.makefile("rb")

    def execute(self, command: str, timeout: float = _SECONDS, **arguments: Any) -> Any:
        """Send a command; return what QEMU answers.

        Raises
        ------
        ToolchainError
            QEMU refuses the command, or gives no answer in `timeout` seconds.
        """
        self._connection.settimeout(timeout)
        try:
            self._connection.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
            while True:
                answer = self.read()
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise ToolchainError(f"QEMU refuses {command}: {answer['error'].get('desc')}")
        except OSError as error:
            raise ToolchainError(f"QEMU does not answer {command}: {error}") from error

    def read(self) -> dict[str, Any]:
        """Return the next message, an answer or an event; `ConnectionError` at the end."""
        line = self._lines.readline()
        if not line:
            raise ConnectionError("QEMU has ended")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def control(folder: Path) -> Iterator[Control | None]:
    """Yield a connection to the QEMU that serves the socket in a folder; None if none runs.

    The socket tells who serves it, so no process id has to be stored, which another process could get.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SECONDS)
        try:
            _connect(connection, folder)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            yield None
            return
        packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        life = Life.of(struct.unpack("3i", packed)[0])
        if life is None:  # it ended just now
            yield None
            return
        connected = Control(connection, life)
        try:
            connected.read()  # the greeting
        except OSError as error:
            raise ToolchainError(f"{folder / SOCKET}: QEMU does not answer: {error}") from error
        connected.execute("qmp_capabilities")
        yield connected


def _connect(connection: socket.socket, folder: Path) -> None:
    """Connect by a short path: an address has at most 108 bytes (unix(7))."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET}")
    finally:
        os.close(handle)


CONSOLE = "console.log"  # in the machine's folder: what the kernel and systemd write
START_SECONDS = 600.0  # measured: 25 s on two idle cores
PROGRAM = "qemu-system-aarch64"
INSTALL = "apt-get install --no-install-recommends qemu-system-arm qemu-utils e2fsprogs mmdebstrap"
_CORES = 4
_END_SECONDS = 30.0


@dataclass(frozen=True)
class Base:
    """The files that all machines of an architecture share.

    Attributes
    ----------
    kernel, initrd
        What QEMU starts.
    disk
        The system, a qcow2 image that is never written.
    """

    kernel: Path
    initrd: Path
    disk: Path

    @classmethod
    def of(cls, folder: Path) -> Base:
        """Return the paths of the files in a folder, which may not have them yet."""
        return cls(folder / "kernel", folder / "initrd", folder / "base.qcow2")

    def link(self, folder: Path) -> None:
        """Link the files into a board's folder, or copy them: a board outlives a cache that is emptied."""
        for file in (self.kernel, self.initrd, self.disk):
            try:
                (folder / file.name).hardlink_to(file)
            except OSError:  # another file system
                shutil.copy(file, folder / file.name)


def disk_file(file: Path, name: str, *, kind: str = "qcow2") -> list[str]:
    """Return QEMU's options for a disk that is a file.

    QEMU writes through the host's page cache: a flush of the machine reaches the host's disk, and what was
    not flushed survives the end of QEMU, though not that of the host.
    """
    # A comma in a value is written twice.
    path = str(file).replace(",", ",,")
    return [
        *("-drive", f"if=none,id={name},file={path},format={kind},cache=writeback,discard=unmap"),
        *("-device", f"virtio-blk-pci,drive={name}"),
    ]


def spawn(
    folder: Path,
    base: Base,
    profile: Profile,
    disks: Sequence[str],
    *,
    port: int | None = None,
    words: str = "",
    more: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """Start QEMU in a session of its own, with its control socket and console in `folder`.

    Parameters
    ----------
    disks
        Options of QEMU for the disks, the system's first.
    port
        Port of 127.0.0.1 that leads to the machine's SSH server; None: no network. The machine itself
        reaches nothing.
    words
        More words for the kernel's command line.
    more
        More options.

    Raises
    ------
    MissingError
        QEMU is not installed.
    """
    (folder / SOCKET).unlink(missing_ok=True)
    cores = min(sum(cluster.cores for cluster in profile.clusters), os.cpu_count() or 1, _CORES)
    network = [] if port is None else [f"hostfwd=tcp:127.0.0.1:{port}-:22"]
    command = [
        *(program(PROGRAM), "-nodefaults", "-no-user-config", "-display", "none", "-machine", "virt"),
        *("-cpu", emulated_cpu(profile), "-accel", "tcg,thread=multi"),
        *("-smp", str(cores), "-m", str(profile.memory_mib)),
        *("-kernel", str(base.kernel), "-initrd", str(base.initrd)),
        *("-append", f"console=ttyAMA0 quiet net.ifnames=0 panic=5 systemd.show_status=0 {words}"),
        *disks,
        *("-netdev", ",".join(["user,id=net,restrict=on,ipv6=off", *network])),
        *("-device", "virtio-net-pci,netdev=net,romfile="),
        *("-device", "virtio-rng-pci", "-serial", f"file:{CONSOLE}"),
        *("-qmp", f"unix:{SOCKET},server=on,wait=off"),
        *more,
    ]
    with uninterrupted(), (folder / "qemu.log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def missing_programs() -> list[str]:
    """Return those programs that a machine needs and that are not installed."""
    return [name for name in (PROGRAM, "qemu-img", "mke2fs", "mmdebstrap") if _path_of(name) is None]


def _path_of(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def program(name: str) -> str:
    """Return the path of a program of QEMU or e2fsprogs.

    Raises
    ------
    MissingError
        It is not installed.
    """
    path = _path_of(name)
    if path is None:
        raise MissingError(f"no {name!r} on this machine: it is needed for boards of --kind system", INSTALL)
    return path


def wait_for_ssh(folder: Path, life: Life, port: int, name: str, seconds: float = START_SECONDS) -> None:
    """Wait until the machine's SSH server sends its banner: QEMU accepts connections long before.

    Raises
    ------
    ToolchainError
        QEMU ended, or the server does not answer in time.
    """
    deadline = time.monotonic() + seconds
    while not answers(port):
        ended, late = not life.lasts(), time.monotonic() > deadline
        if ended or late:
            what = "QEMU ended" if ended else f"its SSH server did not answer within {seconds:g} s"
            raise ToolchainError(f"board {name}: {what}{failure_reason(folder)}")
        time.sleep(0.2)


def answers(port: int) -> bool:
    """Return whether an SSH server behind a port of 127.0.0.1 sends its banner within seconds."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def failure_reason(folder: Path) -> str:
    """Return why QEMU or the machine's initial system failed, with a colon before it; may be empty."""
    for name in ("qemu.log", CONSOLE):
        file = folder / name
        lines = file.read_bytes().strip().splitlines() if file.exists() else []
        of_edge = [line for line in lines if line.startswith(b"edge: ")]
        if lines:
            return f": {last_line((of_edge or lines)[-1])}"
    return ""


def end(folder: Path) -> None:
    """Kill the machine of `folder` if it runs; it is not shut down first.

    Raises
    ------
    ToolchainError
        It does not end.
    """
    with control(folder) as running:
        if running is None:
            return
        life = running.life
        life.signal(signal.SIGTERM)
    if not life.ends_within(_END_SECONDS):
        life.signal(signal.SIGKILL)
        if not life.ends_within(_END_SECONDS):
            raise ToolchainError(f"QEMU (process {life.pid}) does not end", f"kill -9 {life.pid}")
