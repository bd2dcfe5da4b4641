"""What a board's shell says of itself, to `board status` and `board provision`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cli.lying.asking import ESCAPE, Ask, clean
from tests.cli.lying.liar import Liar
from toolchain.host import host_profile

pytestmark = pytest.mark.slow


def system_says(liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the board's `sh` print a file, whatever it is asked; return the file."""
    programs = folder / "programs"
    programs.mkdir()
    lines = folder / "lines"
    (programs / "sh").write_text(f"#!/bin/sh\ncat {lines}\n")
    (programs / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert liar.root.is_dir()
    return lines


STATE = {
    "load_1min": ("abc", "nan", "inf", "-1", "1e400", ESCAPE[:-3], "[]"),
    "uptime_s": ("abc", "nan", "1.5", "-3", "9" * 5000),
    "millidegrees": ("abc", "²", "nan", "9" * 400, "9" * 5000),
    "governor": (ESCAPE[:-3], "x" * 5000),
    "memory_free_kib": ("inf", "-1", "1" * 300),
    "disk_free_kib": ("nan", "abc", "1" * 300),
    "node": (ESCAPE[:-3],),
}


@pytest.mark.parametrize("field", STATE)
def test_refuses_impossible_state(
    ask: Ask, liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    lines = system_says(liar, folder, monkeypatch)
    for value in STATE[field]:
        lines.write_text(f"{field}={value}\nother=1\n")
        ran = ask("status")
        clean(ran)
        assert ran.code == 1 and ran.out.startswith("local") and field in ran.out, ran
    document = ask("status", "--json").document[0]
    assert field in document["error"] and document["load_1min"] is None


@pytest.mark.parametrize(
    "said",
    [b"{", b"[" * 50_000, ESCAPE.encode(), b'{"version": 5}', b'{"version": "\\u001b"}', b"x" * 100_000],
)
def test_a_broken_edge_rt_is_shown_by_status(ask: Ask, liar: Liar, said: bytes) -> None:
    liar.say("info", said)
    ran = ask("status")
    clean(ran)
    assert ran.code == 0 and "edge-rt broken: " in ran.out, ran


SAYS = {
    "edge-toolchain facts 1": (" ", "Last login"),
    "machine=M": (" ", f"machine={ESCAPE[:-3]}"),
    "user=me": (f"user={ESCAPE[:-3]}", "user=" + "x" * 5000),
    "mode=700": ("mode=999", "mode=rwx", "mode=-1"),
    "free_kib=99999999": ("free_kib=abc", "free_kib=nan", "free_kib=-5", "free_kib=" + "9" * 5000),
    "clock=NOW": ("clock=abc", "clock=1" + "0" * 300, "clock=-1", "clock=inf"),
    "writable=yes": ("writable=", "writable=perhaps"),
    "sudo=none": ("sudo=always",),
    "record=": ("record=[]", "record={", "record=" + "[" * 100_000, 'record={"governors": {"a": 5}}'),
    "entry=bin": ("policy=a", "file=nan nan x", "file=1 2", "link=x", "colour=blue"),
}


@pytest.mark.parametrize("line", SAYS)
def test_provisioning_believes_no_facts_that_cannot_be(
    ask: Ask, liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said = system_says(liar, folder, monkeypatch)
    lines = [*SAYS, "bits=64", "glibc=glibc 9.9", "uid=1000", "home=/home/me", "root=/home/me/x", "end"]
    for lie in ("", *SAYS[line]):
        text = "\n".join(lie if lie and each == line else each for each in lines) + "\n"
        text = text.replace("machine=M", f"machine={host_profile().arch}")
        said.write_text(text.replace("NOW", f"{time.time():.0f}"))
        ran = ask("provision", "--dry-run")
        clean(ran)
        if lie:
            assert ran.code in (1, 4) and ran.says("board local", "hint: "), ran
        else:
            assert ran.code == 0, ran
