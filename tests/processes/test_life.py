"""A process is told from another one that gets its number, whatever the clock says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from toolchain.processes.life import Life


def test_a_process_lasts_until_it_ends_though_nobody_has_reaped_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        life = Life.of(child.pid)
        assert life is not None
        assert life.lasts()
        life.signal(signal.SIGKILL)
        assert life.ends_within(60)
        assert Life.of(child.pid) is None


def test_a_process_and_others_agree_about_it() -> None:
    """Under qemu-user, too, whose programs see a start time of their own in /proc/self/stat."""
    program = "from toolchain.processes.life import Life; print(Life.own().began, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        said = child.stdout.readline().strip()
        life = Life.of(child.pid)
        child.communicate("\n")
    assert life is not None and life.began == said


def test_another_process_with_the_same_number_is_another_one() -> None:
    own = Life.own()
    assert own.pid == os.getpid()
    earlier = replace(own, began=own.began + "1")
    assert not earlier.lasts()
    earlier.signal(signal.SIGKILL)  # does nothing: we go on


def test_setting_the_clock_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Life.own()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(psutil, "boot_time", lambda: 0.0)
    assert before.lasts()
    assert Life.own() == before
    assert str(int(psutil.Process().create_time())) not in before.began, "a time moves with the clock"
