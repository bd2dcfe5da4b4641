"""What a board prints takes so much memory and disk, and no more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.output import kept
from toolchain.boards.output.kept import MOST_ERRORS, MOST_OUTPUT, Kept, Log
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import Transport
from toolchain.errors import CheckError


@pytest.fixture(params=["local", "ssh"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    if request.param == "ssh":
        found: SshTransport = request.getfixturevalue("ssh")
        return found
    (tmp_path / "board").mkdir()
    return LocalTransport(tmp_path / "board")


@given(st.lists(st.binary(max_size=40)), st.integers(1, 50))
def test_the_beginning_or_the_end_is_kept_and_the_rest_counted(chunks: list[bytes], most: int) -> None:
    whole = b"".join(chunks)
    first, last = Kept(most), Kept(most, last=True)
    for chunk in chunks:
        first.take(chunk)
        last.take(chunk)
    assert first.content() == whole[:most] and last.content() == whole[-most:]
    assert first.dropped == last.dropped == max(0, len(whole) - most)


@pytest.mark.slow
def test_keeps_first_output_and_last_errors(transport: Transport) -> None:
    script = "head -c 20000000 /dev/zero; head -c 2000000 /dev/zero >&2; echo end >&2; exit 3"
    done = transport.run(["sh", "-c", script])
    assert done.returncode == 3
    assert (len(done.stdout), done.stdout_dropped) == (MOST_OUTPUT, 20_000_000 - MOST_OUTPUT)
    assert (len(done.stderr), done.stderr_dropped) == (MOST_ERRORS, 2_000_004 - MOST_ERRORS)
    assert done.stderr.endswith(b"\0end\n")


@pytest.mark.slow
def test_a_log_ends_with_a_line_that_says_so(
    transport: Transport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_LOG", 10_000)
    log = tmp_path / "board.log"
    log.write_bytes(b"x" * 4_000)
    for _ in range(2):  # a server that is started again goes on with the same file
        process = transport.spawn(["sh", "-c", "head -c 3000000 /dev/zero >&2; echo done; cat"], log)
        assert process.stdout.readline() == b"done\n"
        process.close()
    text = log.read_bytes()
    assert text.startswith(b"x" * 4_000 + bytes(6_000) + b"\n(this log holds ")
    assert text.endswith(b" MiB; the rest is left out)\n") and len(text) < 10_100


def test_a_pipe_to_a_reader_is_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_LOG", 10)
    reading, writing = os.pipe()
    with Log(Path(f"/dev/fd/{writing}")) as log:
        log.write(b"x" * 100)
    os.close(writing)
    with os.fdopen(reading, "rb") as read:
        assert read.read() == b"x" * 100
    assert tmp_path.is_dir()


def test_a_disk_that_takes_no_more_does_not_end_the_board() -> None:
    with Log(Path("/dev/full")) as log:
        log.write(b"x" * 100_000)


def test_a_file_is_fetched_up_to_its_limit(transport: Transport, tmp_path: Path) -> None:
    transport.put(b"x" * 1000, "a/b")
    transport.get("a/b", tmp_path / "whole", 1000)
    assert (tmp_path / "whole").read_bytes() == b"x" * 1000
    with pytest.raises(CheckError, match="a/b has more than the allowed 999 bytes"):
        transport.get("a/b", tmp_path / "cut", 999)
    assert not (tmp_path / "cut").exists()


def test_endless_download_is_given_up(ssh: SshTransport, tmp_path: Path) -> None:
    Path(ssh.root, "large").write_bytes(b"")
    os.truncate(Path(ssh.root, "large"), 2**40)
    begun = time.monotonic()
    with pytest.raises(CheckError, match="large has more than the allowed 1000000 bytes"):
        ssh.get("large", tmp_path / "got", 1_000_000)
    assert time.monotonic() - begun < 30


@pytest.mark.slow
def test_slow_download_is_given_up(
    ssh: SshTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.ssh.transport._STEP_S", 0.5)
    drips = "say ready\nwhile echo x; do sleep 0.1; done\n"
    from toolchain.boards.ssh import scripts

    monkeypatch.setattr(scripts, "GET", scripts._BEGIN + drips)
    with pytest.raises(Exception, match="no progress for too long"):
        ssh.get("any", tmp_path / "got", 1000)
    assert not (tmp_path / "got").exists()
