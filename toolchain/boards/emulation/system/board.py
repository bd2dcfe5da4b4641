"""Emulated boards as machines: their disks, keys and addresses."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from toolchain.boards.emulation.guest import IDENTITY, Guest, board_files, free_port, new_identity
from toolchain.boards.emulation.system.base import ensure_base, qemu_img
from toolchain.boards.emulation.system.machine import (
    Base,
    answers,
    control,
    disk_file,
    end,
    failure_reason,
    spawn,
    wait_for_ssh,
)
from toolchain.boards.ssh.hostkeys import checked_host_key
from toolchain.errors import ToolchainError, UsageError
from toolchain.images.debian.system_files import HOST_KEY
from toolchain.images.registry.archive import add_file
from toolchain.processes.life import Life
from toolchain.profiles import Profile

DISK = "disk.qcow2"  # in the board's folder: what differs from the disk that all boards share
_ARCH = "aarch64"


class SystemBoard(Guest):
    """The stored facts of a board that is a machine."""


def check_class(profile: Profile) -> None:
    """Refuse a class that has no machines.

    Raises
    ------
    UsageError
        Its architecture has no kernel here.
    """
    if profile.arch != _ARCH:
        raise UsageError(
            f"board class {profile.name}: there are no machines for {profile.arch} boards",
            f"use a class for {_ARCH} such as rk3399, or --kind container",
        )


def start(profile: Profile, name: str, folder: Path, progress: Callable[[str], None]) -> SystemBoard:
    """Make a machine with a disk of its own and wait until its SSH server answers.

    The caller ends it with `end` if anything fails afterwards.

    Parameters
    ----------
    folder
        The board's folder, in which its disk and its private key are written.

    Raises
    ------
    MissingError, ToolchainError
        As of `ensure_base`; or the machine does not start.
    """
    ensure_base(profile, progress).link(folder)
    base = Base.of(folder)
    # A backing file's relative path is looked up beside the overlay: the folder may be renamed.
    qemu_img("create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base.disk.name, str(folder / DISK))
    progress(f"starting {name} (under a minute on an idle host)")
    with tempfile.TemporaryDirectory(dir=folder, prefix=".first.") as scratch:
        host_key, files = _first_files(profile, name, folder, Path(scratch))
        port = free_port()
        disks = [*disk_file(folder / DISK, "disk"), *disk_file(files, "files", kind="raw")]
        try:
            process = spawn(folder, base, profile, disks, port=port)
            _wait(folder, process, port, name)
        except BaseException:
            end(folder)
            raise
    return SystemBoard(port=port, host_key=host_key)


def resume(board: SystemBoard, profile: Profile, name: str, folder: Path) -> bool:
    """Start a machine again if it does not run; return whether it was started.

    Its disk, port and host key are kept.

    Raises
    ------
    MissingError, ToolchainError
        QEMU is gone, another program has the port, or the SSH server does not answer.
    """
    if is_running(folder):
        return False
    process = spawn(folder, Base.of(folder), profile, disk_file(folder / DISK, "disk"), port=board.port)
    _wait(folder, process, board.port, name)
    return True


def is_running(folder: Path) -> bool:
    """Return whether the machine in that folder runs."""
    with control(folder) as running:
        return running is not None


def condition(board: SystemBoard, folder: Path) -> str:
    """Return `ready`, `starting` or `stopped`."""
    if not is_running(folder):
        return "stopped"
    return "ready" if answers(board.port) else "starting"


def _wait(folder: Path, process: subprocess.Popen[bytes], port: int, name: str) -> None:
    life = Life.of(process.pid)
    if life is None:
        raise ToolchainError(f"board {name}: QEMU ended{failure_reason(folder)}")
    wait_for_ssh(folder, life, port, name)


def _first_files(profile: Profile, name: str, folder: Path, scratch: Path) -> tuple[str, Path]:
    """Write the tar of the files that no other board has; return the host key and the tar.

    The private host key is nowhere else on this host once the tar is gone.
    """
    key = scratch / "host_key"
    public = new_identity(key, name)
    content = board_files(profile, new_identity(folder / IDENTITY, name), sudo=True, more={})
    hostname = name.replace("_", "-")
    buffer = io.BytesIO(content)
    with tarfile.open(fileobj=buffer, mode="a") as archive:
        add_file(archive, HOST_KEY.lstrip("/"), key.read_bytes(), 0o600)
        add_file(archive, f"{HOST_KEY}.pub".lstrip("/"), public.encode())
        add_file(archive, "etc/hostname", f"{hostname}\n".encode())
        hosts = f"127.0.0.1 localhost {hostname}\n::1 localhost\n"
        add_file(archive, "etc/hosts", hosts.encode())
    files = scratch / "files.tar"
    files.touch(0o600)
    files.write_bytes(buffer.getvalue())
    return checked_host_key(public), files
