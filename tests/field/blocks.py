"""Every state of a disk that a power cut could leave on a real ext4.

QEMU's storage daemon shows a file whose writes and flushes it keeps in a log (`blklogwrites`, the format of
Linux's dm-log-writes) as another file, by FUSE; a loop device makes a disk of that, and the kernel's ext4 is
mounted on it. A cut keeps a beginning of the log. Of what came after its last flush a disk may have lost any
write: here one, or all. It needs root, /dev/fuse and loop devices.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests.machines.programs import path_with_qemu
from tests.waiting import until
from toolchain.processes.interrupts import uninterrupted

SECTOR = 512
DISK_MIB = 16
_LOG_MAGIC = 0x6A736677736872
_FLUSH, _DISCARD = 1, 4
_SECONDS = 60


def missing() -> str:
    """Return what this machine lacks; empty if nothing."""
    lacks = [] if os.geteuid() == 0 else ["root"]
    lacks += [device for device in ("/dev/fuse", "/dev/loop-control") if not Path(device).exists()]
    return ", ".join(lacks)


@lru_cache
def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{path_with_qemu()}:/usr/sbin:/sbin"}


def _run(*words: str | Path) -> None:
    # Not by Ctrl-C, which reaches the whole group: what is mounted must be unmounted afterwards.
    done = subprocess.run(
        list(map(str, words)),
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        start_new_session=True,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"


def new_disk(image: Path) -> None:
    """Make an image with an empty ext4."""
    with image.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    _run("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mount an image; the loop device goes with it."""
    at.mkdir(exist_ok=True)
    with ExitStack() as stack:
        with uninterrupted():
            _run("mount", "-o", "loop", "-t", "ext4", image, at)
            stack.callback(_unmount, at)
        yield at


def _unmount(at: Path) -> None:
    with uninterrupted():
        try:
            _run("umount", at)
        except AssertionError:
            _run("umount", "--lazy", at)
            raise


@contextmanager
def logged(image: Path, log: Path, shown: Path) -> Iterator[Path]:
    """Show a copy of the image whose writes go to `log` as well, as the file `shown`."""
    disk = image.with_suffix(".disk")
    shutil.copyfile(image, disk)
    with log.open("wb") as file:
        file.truncate(512 << 20)  # it has holes
    shown.touch()
    node = f"driver=blklogwrites,node-name=both,file=disk,log=log,log-sector-size={SECTOR}"
    argv = ["qemu-storage-daemon"]
    argv += ["--blockdev", f"driver=file,node-name=disk,filename={disk}"]
    argv += ["--blockdev", f"driver=file,node-name=log,filename={log}", "--blockdev", node]
    argv += ["--export", f"type=fuse,id=export,node-name=both,mountpoint={shown},writable=on"]
    with ExitStack() as stack:
        with uninterrupted():
            daemon = subprocess.Popen(
                argv, env=_environment(), stderr=subprocess.PIPE, start_new_session=True
            )
            stack.callback(_end, daemon)
        until(lambda: shown.stat().st_size == disk.stat().st_size or daemon.poll() is not None)
        assert daemon.poll() is None, daemon.stderr.read() if daemon.stderr else ""
        yield shown


def _end(daemon: subprocess.Popen[bytes]) -> None:
    with uninterrupted():
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(_SECONDS)
        finally:
            daemon.kill()
            daemon.wait()
            if daemon.stderr:
                daemon.stderr.close()


@dataclass(frozen=True)
class Entry:
    """One entry of the log: bytes written at a place, or a flush."""

    at: int
    data: bytes
    flush: bool


def read_log(log: Path) -> list[Entry]:
    """Return the entries of a log.

    Its head has magic, version, number of entries and sector size; an entry is a sector with place and length
    in sectors, and flags, before its data.
    """
    entries = []
    with log.open("rb") as file:
        magic, _, count, size = struct.unpack("<QQQI", file.read(28))
        assert (magic, size) == (_LOG_MAGIC, SECTOR)
        file.seek(SECTOR)
        for _ in range(count):
            sector, sectors, flags, _ = struct.unpack("<QQQQ", file.read(SECTOR)[:32])
            data = b"" if flags & _DISCARD else file.read(sectors * SECTOR)
            entries.append(Entry(sector * SECTOR, data, bool(flags & _FLUSH)))
    return entries


def states(entries: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the states that cuts could leave: what to call each, and the writes that are there."""
    flushed = 0
    for count in range(len(entries) + 1):
        kept = entries[:count]
        if kept and kept[-1].flush:
            flushed = count
        unflushed = [number for number in range(flushed, count) if entries[number].data]
        yield f"after {count} of {len(entries)}", kept
        if len(unflushed) > 1:
            yield f"after {count} of {len(entries)}, without all unflushed", kept[:flushed]
        for number in unflushed[:-1]:
            yield f"after {count} of {len(entries)}, without {number}", [*kept[:number], *kept[number + 1 :]]


def build(base: Path, writes: list[Entry], image: Path) -> None:
    """Write the state as an image."""
    shutil.copyfile(base, image)
    with image.open("r+b") as file:
        for write in writes:
            file.seek(write.at)
            file.write(write.data)
