"""Unpacks Debian packages for any architecture by `mmdebstrap`, as one tar stream."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from toolchain.configuration.settings import configuration
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.certificates import ensure_authorities
from toolchain.images.registry.archive import CHANGED
from toolchain.processes.interrupts import uninterrupted

# Finds a mirror for Debian's packages: the setting's, else one of this machine's apt, else Debian's own.

APT = Path("/etc/apt")
DEBIAN = "http://deb.debian.org/debian"
_BY_AGE = ("oldoldstable", "oldstable", "stable", "testing", "unstable")
_BY_NAME = ("bullseye", "bookworm", "trixie", "forky", "duke", "sid")


def debian_mirror(suite: str = "bookworm", apt: Path = APT) -> str:
    """Return the address of a Debian archive that has `suite`; apt checks the signatures of what it has.

    The setting `debian_mirror` wins. Else the address is one of apt's: of the suite if apt has it, else
    any, since an archive has all suites that Debian maintains. Only addresses count that end in `/debian`, as
    mirrors' do, or that have the updates of a suite, too.

    Parameters
    ----------
    apt
        The folder of `sources.list`.

    Raises
    ------
    UsageError
        The setting has a password, which the engine would store.
    """
    current = configuration()
    set_to = current.settings.debian_mirror
    if set_to:
        if urlsplit(set_to).username is not None:
            raise UsageError(
                f"{current.origins['debian_mirror']}: debian_mirror may not hold a user's name or password",
                "a mirror that wants none, such as a proxy on this machine",
            )
        return set_to.rstrip("/")
    others = []
    sources = list(_sources(apt))
    updated = {
        address
        for address, suites, _ in sources
        if any(suite_name.endswith("-updates") for suite_name in suites)
    }
    for address, suites, components in sources:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or parts.username is not None or "main" not in components:
            continue
        if not parts.path.rstrip("/").endswith("/debian") and address not in updated:
            continue  # another vendor's packages: their suites are called stable and bookworm, too
        if suite in suites:
            return address.rstrip("/")
        if not {*_BY_AGE, *_BY_NAME}.isdisjoint(suites):
            others.append(address.rstrip("/"))
    return next(iter(others), DEBIAN)


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield address, suites and components of each archive of binary packages, in apt's order."""
    parts = apt / "sources.list.d"
    for file in (apt / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else ())):
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        text = file.read_text(errors="replace")
        yield from _deb822(text) if file.suffix == ".sources" else _lines(text)


def _lines(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Parse apt's one-line format: `deb [option=value …] ADDRESS SUITE COMPONENT…`."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if match:
            yield match[1], [match[2]], match[3].split()


def _deb822(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Parse stanzas of `Key: values`, in which a line that begins with a space continues the one before."""
    for stanza in re.split(r"\n\s*\n", text):
        values: dict[str, list[str]] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                values.setdefault(key, []).extend(line.split())
            elif ":" in line:
                key, _, rest = line.partition(":")
                key = key.strip().lower()
                values[key] = rest.split()
        if "deb" in values.get("types", []) and [v.lower() for v in values.get("enabled", [])] != ["no"]:
            for address in values.get("uris", []):
                yield address, values.get("suites", []), values.get("components", [])


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
    """Yield the packages with their dependencies as one tar stream.

    Parameters
    ----------
    architecture
        Debian's name of the architecture.
    log
        File for the output of the program.
    variant
        mmdebstrap's variant; with `extract`, no scripts of packages run.
    apt_options
        Lines of apt's configuration; a system that contains apt keeps them.

    Raises
    ------
    MissingError
        `mmdebstrap` is not installed.
    ToolchainError
        The packages cannot be fetched within 15 minutes, or the stream is not a tar archive.
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
        complaints = [line for line in lines if line.startswith("E:")] or lines[-1:] or ["it said nothing"]
        late = f"it was ended after {_SECONDS:g} s; " if ended_late.is_set() else ""
        raise ToolchainError(
            f"mmdebstrap cannot unpack Debian {suite} for {architecture}: {late}{complaints[0]}",
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
    """End mmdebstrap; give it time to clean up after itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(10)
