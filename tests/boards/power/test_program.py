"""A program of the user's: its end, its words, its deadline, and what it leaves behind."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from toolchain.boards.power.switch import run_program

PATIENCE_S = 60.0


def test_reports_exit_code_and_last_output() -> None:
    ran = run_program(["sh", "-c", "echo out; echo err >&2; exit 3"], PATIENCE_S)
    assert (ran.code, ran.output) == (3, b"out\nerr\n")
    assert run_program(["sh", "-c", "kill -9 $$"], PATIENCE_S).code == -9


def test_keeps_end_of_long_output() -> None:
    ran = run_program(["sh", "-c", "yes | head -c 5000000; echo the end"], PATIENCE_S)
    assert ran.code == 0 and len(ran.output) <= 1 << 14
    assert ran.output.endswith(b"y\nthe end\n")


@pytest.mark.slow
def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    begun = time.monotonic()
    script = f"sleep 600 & echo $! >{tmp_path}/child; exec sleep 600"
    ran = run_program(["sh", "-c", script], 3)
    assert ran.code is None and time.monotonic() - begun < PATIENCE_S
    child = int((tmp_path / "child").read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_one_that_closes_its_output_early_is_waited_for() -> None:
    assert run_program(["sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4"], PATIENCE_S).code == 4


def test_a_daemon_that_it_starts_lasts_and_delays_nobody(tmp_path: Path) -> None:
    begun = time.monotonic()
    file = tmp_path / "daemon"
    script = f"setsid sh -c 'echo $$ >{file}; exec sleep 600' & until [ -s {file} ]; do sleep 0.01; done"
    ran = run_program(["sh", "-c", script], PATIENCE_S)
    daemon = int(file.read_text())
    try:
        assert ran.code == 0 and time.monotonic() - begun < PATIENCE_S / 2
        assert psutil.pid_exists(daemon)
    finally:
        with suppress(ProcessLookupError):
            os.kill(daemon, 9)


def test_reports_missing_program() -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["no-such-relay"], PATIENCE_S)
