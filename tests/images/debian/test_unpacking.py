"""`mmdebstrap` as it is started here: what it is asked for, and every way in which it can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from toolchain.configuration.settings import configuration
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.debian import unpacking
from toolchain.images.debian.unpacking import unpack
from toolchain.images.registry.archive import CHANGED

MIRROR = "http://mirror.example/debian"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where a `mmdebstrap` of the test's own is to be written, a program for `sh`."""
    tool = tmp_path / "bin" / "mmdebstrap"
    tool.parent.mkdir()
    tool.touch(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", MIRROR)
    configuration.cache_clear()
    return tool


def names(log: Path) -> list[str]:
    with (
        unpack("bookworm", "arm64", ["dash", "sed"], log) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        return archive.getnames()


def test_packages_come_from_the_configured_mirror(tool: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "system.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("etc"))
    tool.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" "$SOURCE_DATE_EPOCH" >{tmp_path}/asked; cat {tmp_path}/system.tar\n'
        "head -c 300000 /dev/zero; echo a warning >&2\n"  # padding, more than a pipe holds
    )
    assert names(tmp_path / "log") == ["etc"]
    arguments = (tmp_path / "asked").read_text().splitlines()
    assert {"--architectures=arm64", "--include=dash,sed", "--variant=extract", "--format=tar"} <= set(
        arguments
    )
    assert arguments[-4:] == ["bookworm", "-", f"deb {MIRROR} bookworm main", str(CHANGED)]
    assert not any("CAInfo" in word for word in arguments)
    assert (tmp_path / "log").read_text() == "a warning\n"


def test_passes_the_sites_authorities_to_mmdebstrap(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "authorities").mkdir()
    (tmp_path / "authorities" / "site.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("TOOLCHAIN_TLS_AUTHORITIES", str(tmp_path / "authorities"))
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()
    tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/asked; head -c 10240 /dev/zero\n')
    assert names(tmp_path / "log") == []
    (line,) = [line for line in (tmp_path / "asked").read_text().splitlines() if "CAInfo" in line]
    assert Path(line.split('"')[1]).is_file()


@pytest.mark.parametrize("content", [b"", b"not a tar at all" * 100])
@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ("I: trying; W: hm; E: out of luck; I: bye", "E: out of luck"),
        ("I: trying; the last line", "the last line"),
        ("", "it said nothing"),
    ],
)
def test_reports_mmdebstraps_complaint_if_there_is_no_tar(
    tool: Path, tmp_path: Path, content: bytes, errors: str, says: str
) -> None:
    (tmp_path / "content").write_bytes(content)
    words = " ".join(f"'{line}'" for line in errors.split("; ") if line)
    print_words = f"printf '%s\\n' {words} >&2; " if words else ""
    tool.write_text(f"#!/bin/sh\n{print_words}cat {tmp_path}/content; exit 25\n")
    with pytest.raises(ToolchainError, match=f"cannot unpack Debian bookworm for arm64: {says}") as caught:
        names(tmp_path / "log")
    assert MIRROR in caught.value.hint


def test_refuses_a_complete_tar_of_a_failed_program(tool: Path, tmp_path: Path) -> None:
    tarfile.open(tmp_path / "system.tar", "w").close()
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/system.tar; exit 1\n")
    with pytest.raises(ToolchainError, match="it said nothing"):
        names(tmp_path / "log")


def test_missing_mmdebstrap_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", MIRROR)
    configuration.cache_clear()
    with pytest.raises(MissingError, match=r"no 'mmdebstrap'.*apt-get install mmdebstrap"):
        names(tmp_path / "log")


def waiting(tool: Path, folder: Path) -> None:
    """Let the program say its number, and then nothing for minutes."""
    tool.write_text(f"#!/bin/sh\necho $$ > {folder}/new\nmv {folder}/new {folder}/pid\nexec sleep 600\n")


@pytest.mark.slow
def test_silent_mmdebstrap_is_killed_at_its_deadline(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting(tool, tmp_path)
    monkeypatch.setattr(unpacking, "_SECONDS", 0.3)
    with pytest.raises(ToolchainError, match=r"cannot unpack .*: it was ended after 0\.3 s; it said nothing"):
        names(tmp_path / "log")


@pytest.mark.slow
@pytest.mark.parametrize("then", ["exec yes", "exec sleep 600"])
def test_invalid_output_ends_mmdebstrap_at_once(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    tool.write_text(f"#!/bin/sh\necho E: disk full >&2; head -c 99999 /dev/zero | tr '\\0' x; {then}\n")
    monkeypatch.setattr(unpacking, "_LAST_WORDS_SECONDS", 0.3)
    monkeypatch.setattr(unpacking, "_SECONDS", 20.0)
    with pytest.raises(ToolchainError, match="for arm64: E: disk full"):
        names(tmp_path / "log")


def test_an_exception_ends_mmdebstrap(tool: Path, tmp_path: Path) -> None:
    waiting(tool, tmp_path)
    with pytest.raises(ZeroDivisionError), unpack("bookworm", "arm64", [], tmp_path / "log"):
        until((tmp_path / "pid").is_file)
        raise ZeroDivisionError
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_mmdebstrap(tool: Path, tmp_path: Path, number: signal.Signals) -> None:
    waiting(tool, tmp_path)
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from toolchain.images.debian.unpacking import unpack\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        f"with unpack('bookworm', 'arm64', [], Path({str(tmp_path / 'log')!r})) as stream: stream.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as owner:
        until((tmp_path / "pid").is_file)
        owner.send_signal(number)
        owner.communicate(timeout=120)
    child = int((tmp_path / "pid").read_text())
    until(lambda: not psutil.pid_exists(child))
