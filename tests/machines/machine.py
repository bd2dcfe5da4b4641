"""A machine whose power is cut: started from a saved state in seconds, or booted from what a cut has left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.machines.disk import Disk, Loss
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated, stored
from toolchain.boards.emulation.system import base as files
from toolchain.boards.emulation.system.board import DISK
from toolchain.boards.emulation.system.machine import Base, control, end, spawn, wait_for_ssh
from toolchain.processes.life import Life
from toolchain.profiles import load_profile

FLUSH_S = 0.02  # a flush of an SD card takes about so long
SECONDS = 600.0  # a boot on two cores that others use


@dataclass
class Machine:
    """A board of kind `system` on a disk that loses unflushed writes.

    Attributes
    ----------
    board
        The board as commands see it.
    booted_s
        How long the last boot took, to the SSH server's banner, in seconds.
    """

    board: Board
    folder: Path
    disk: Disk
    booted_s: float = 0.0
    _process: subprocess.Popen[bytes] | None = None
    _saved: dict[int, bytes] = field(default_factory=dict)

    def boot(self) -> None:
        """Start the machine from its disk and wait for its SSH server."""
        began = time.monotonic()
        self._start()
        assert self._process is not None
        life = Life.of(self._process.pid)
        assert life is not None, (self.folder / "qemu.log").read_text()
        wait_for_ssh(self.folder, life, self._port, self.board.name, SECONDS)
        self.booted_s = time.monotonic() - began

    def save(self) -> None:
        """Keep the running machine's memory and disk; then end it."""
        self.say("sync")
        self._drop_connection()
        with control(self.folder) as qemu:
            assert qemu is not None
            qemu.execute("stop")
            qemu.execute("migrate", uri=f"exec:cat >{self.folder / 'memory'}")
            until(lambda: qemu.execute("query-migrate")["status"] == "completed", SECONDS, "saving")
            assert qemu.execute("query-migrate")["status"] == "completed"
        self._saved = self.disk.snapshot()
        self._end()

    def restore(self) -> None:
        """Start the machine as it was saved, with today's time."""
        self.disk.restore(self._saved)
        self._start("-incoming", f"exec:cat {self.folder / 'memory'}")
        with control(self.folder) as qemu:
            assert qemu is not None
            until(lambda: qemu.execute("query-status")["status"] == "paused", SECONDS, "loading")
            qemu.execute("cont")
        self.say(f"sudo -n date -s @{time.time():.3f}")

    def cut(self, chance: random.Random, how: str | None = None) -> Loss:
        """Cut the power: kill QEMU, and lose writes that the disk had not flushed."""
        assert self._process is not None
        self.disk.switch_off()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._drop_connection()
        return self.disk.cut(chance, how)

    def say(self, command: str, timeout: float = SECONDS) -> str:
        """Run a shell's command in the board's folder; return what it writes."""
        done = self.board.transport.run(["sh", "-c", command], timeout=timeout)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout.decode()

    def close(self) -> None:
        """End the machine and its disk."""
        self._drop_connection()
        self._end()
        self.disk.close()

    @property
    def _port(self) -> int:
        system = stored.read_state(self.board.name).system
        assert system is not None
        return system.port

    def _start(self, *more: str) -> None:
        drive = ["-blockdev", "driver=nbd,node-name=disk,server.type=unix,server.path=disk"]
        disks = [*drive, "-device", "virtio-blk-pci,drive=disk"]
        profile = self.board.profile
        self._process = spawn(self.folder, Base.of(self.folder), profile, disks, port=self._port, more=more)
        until(lambda: self._answers() or self._process.poll() is not None)

    def _answers(self) -> bool:
        # The socket of a QEMU that was killed stays, and a new one exists before anything listens.
        with control(self.folder) as qemu:
            return qemu is not None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _drop_connection(self) -> None:
        self.board.transport.close()
        self.board = emulated.load(self.board.name)


@contextmanager
def machine(name: str) -> Iterator[Machine]:
    """Make an emulated machine, and move its disk to one that loses unflushed writes; end all of it."""
    emulated.start(load_profile("rk3399").name, "system", name=name)
    folder = stored.boards_folder() / name
    try:
        board = emulated.load(name)
        done = board.transport.run(["sync"], timeout=SECONDS)
        assert done.returncode == 0
        board.transport.close()
        end(folder)
        files.qemu_img("convert", "-O", "raw", str(folder / DISK), str(folder / "raw"))
        here = Path.cwd()
        os.chdir(folder)  # a socket's path is short
        try:
            disk = Disk(folder / "raw", Path("disk"), FLUSH_S)
        finally:
            os.chdir(here)
        made = Machine(emulated.load(name), folder, disk)
        try:
            yield made
        finally:
            made.close()
    finally:
        emulated.stop(name)
