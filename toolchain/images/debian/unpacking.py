"""Debian's packages for any architecture, unpacked: what `mmdebstrap` writes, as one tar stream."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from toolchain.errors import MissingError, ToolchainError
from toolchain.images.certificates import ensure_authorities
from toolchain.images.debian.mirror import debian_mirror
from toolchain.images.registry.archive import CHANGED
from toolchain.processes.interrupts import uninterrupted

_SECONDS = 900.0  # 12 s here; the rest is for a slow mirror
_LAST_WORDS_SECONDS = 10.0  # for a program whose output is no tar to say why


@contextmanager
def unpack(
    suite: str,
    architecture: str,
    packages: Sequence[str],
    log: Path,
    variant: str = "extract",
    apt_options: Sequence[str] = (),
) -> Iterator[IO[bytes]]:
    """Yield the packages with all they depend on as one tar stream.

    Parameters
    ----------
    architecture
        Debian's name of it.
    log
        The file for what the program says.
    variant
        `extract`: none of the packages' scripts has run; others in mmdebstrap's words.
    apt_options
        Lines of apt's configuration, which stay in a system that has apt.

    Raises
    ------
    MissingError
        `mmdebstrap` is not installed.
    ToolchainError
        The packages cannot be fetched, not within 15 minutes, or what comes is no tar.
    """
    mirror = debian_mirror(suite)
    trusted = ensure_authorities()
    command = [
        *("mmdebstrap", f"--variant={variant}", "--format=tar", f"--architectures={architecture}"),
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        f"--include={','.join(packages)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=Acquire::Retries "3"',
        *([f'--aptopt=Acquire::https::CAInfo "{trusted}"'] if trusted else []),
        *(f"--aptopt={line}" for line in apt_options),
        *(suite, "-", f"deb {mirror} {suite} main"),
    ]
    child: subprocess.Popen[bytes] | None = None
    failed = ToolchainError("")
    ended_late = threading.Event()

    def overdue() -> None:
        ended_late.set()
        if child is not None:
            _end(child)

    clock = threading.Timer(_SECONDS, overdue)
    try:
        with uninterrupted():
            child = _start(command, log)
        clock.start()
        assert child.stdout is not None  # noqa: S101 - PIPE above
        try:
            yield child.stdout
            while child.stdout.read(1 << 16):  # padding after the end of the tar
                pass
        except tarfile.TarError as error:
            failed.__cause__ = error
            child.stdout.close()  # what it goes on writing fails; it is not waited for to write all
            with suppress(subprocess.TimeoutExpired):
                child.wait(_LAST_WORDS_SECONDS)
            _end(child)
        code = child.wait()
    except BaseException:
        if child is not None:
            _end(child)
        raise
    finally:
        clock.cancel()
        if child is not None and child.stdout:
            child.stdout.close()
    if code != 0 or failed.__cause__:
        lines = log.read_text(errors="replace").strip().splitlines()
        said = [line for line in lines if line.startswith("E:")] or lines[-1:] or ["it said nothing"]
        late = f"it was ended after {_SECONDS:g} s; " if ended_late.is_set() else ""
        raise ToolchainError(
            f"mmdebstrap cannot unpack Debian {suite} for {architecture}: {late}{said[0]}",
            f"does {mirror} answer? Another mirror: set TOOLCHAIN_DEBIAN_MIRROR; "
            "boards go without: --kind process",
        ) from failed.__cause__


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("wb") as errors:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "SOURCE_DATE_EPOCH": str(CHANGED)},
                start_new_session=True,
            )
    except FileNotFoundError as error:
        raise MissingError(
            "no 'mmdebstrap' on this machine: it makes the file systems of boards and images",
            "apt-get install mmdebstrap arch-test debian-archive-keyring uidmap; "
            "boards without it: --kind process",
        ) from error


def _end(child: subprocess.Popen[bytes]) -> None:
    """End mmdebstrap, which cleans up after itself if it is let."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(10)
