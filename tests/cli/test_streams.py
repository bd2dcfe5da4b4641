"""Streams that are full, closed or not read: one sentence where it can be given, and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Toolchain

COMMAND = f"{sys.executable} -m toolchain"


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell as users do, buffered as their Python is; a traceback is never an answer."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**variables, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert not any(word in said for word in ("Traceback", "this is a bug", "Exception ignored")), said
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "streams", "code", "says"),
    [
        ("model list", ">/dev/full", 1, "standard output cannot be written: No space left on device"),
        ("model list --json", ">/dev/full", 1, "standard output cannot be written: No space left"),
        ("--help", ">&-", 1, "standard output cannot be written: it is closed"),
        ("nosuch", ">/dev/full", 2, "No such command"),
        ("nosuch --json", ">/dev/full", 2, ""),
        ("nosuch", "2>&-", 2, ""),
        ("nosuch", "2>/dev/full", 2, ""),
        ("model list", "2>&- >/dev/null", 0, ""),
    ],
)
def test_write_error_is_reported(tmp_path: Path, arguments: str, streams: str, code: int, says: str) -> None:
    done = shell(f"{COMMAND} {arguments} {streams}", tmp_path)
    assert done.returncode == code
    assert says in done.stderr and (says or done.stderr == "")


def test_unbuffered_output_is_the_same(tmp_path: Path) -> None:
    done = shell(f"{COMMAND} model list >/dev/full", tmp_path, PYTHONUNBUFFERED="1")
    assert done.returncode == 1 and "No space left" in done.stderr


@pytest.mark.slow
def test_closed_stream_is_not_reused(tmp_path: Path) -> None:
    # The store of records would have number 1 now, and whatever a library prints would go into it.
    environment = {"TOOLCHAIN_DATA_DIR": str(tmp_path / "data")}
    done = shell(f"{COMMAND} records list >&- 2>&- <&-", tmp_path, **environment)
    assert done.returncode == 1
    assert shell(f"{COMMAND} records list --json", tmp_path, **environment).stdout == "[]\n"


def test_closed_pipe_ends_silently(tmp_path: Path) -> None:
    done = shell(f"{COMMAND} model list 2>&1 | head -1; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert done.stdout.startswith("MODEL") and done.stdout.count("\n") == 1
    assert done.returncode in (0, 1) and done.stderr == ""


@pytest.mark.parametrize(
    "command",
    [
        "records list",
        "board emulate start rk3399 --kind process",
        "runtime export --board local -o out",
        "lab start local",
    ],
)
def test_folders_that_cannot_be_made_are_named(
    command: str, invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a home folder that cannot be written: nobody may make a folder there, root neither."""
    for name in ("CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"TOOLCHAIN_{name}_DIR", f"/dev/null/{name.lower()}")
    ran = invoke(*command.split())
    assert ran.code == 1 and "/dev/null/" in ran.err and "hint: " in ran.err
    assert "this is a bug" not in ran.err
