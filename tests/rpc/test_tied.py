"""A program that ends with who started it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from toolchain.rpc.tied import tied


def test_it_is_the_program_itself_with_its_words_streams_and_code() -> None:
    program = ["sh", "-c", 'cat; echo "$1" >&2; exit 7', "sh", "a b $HOME"]
    done = subprocess.run(tied(program), input="in", capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "in", "a b $HOME\n")


def test_a_program_that_is_not_there_is_an_error() -> None:
    done = subprocess.run(tied(["/nosuch/program"]), capture_output=True, text=True)
    assert done.returncode != 0 and "FileNotFoundError" in done.stderr


def test_no_module_of_the_current_folder_or_of_pythonpath_is_run(tmp_path: Path) -> None:
    for name in ("ctypes", "signal", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('another module was imported')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(tied(["true"]), env=environment, cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


PARENT = """
import subprocess, sys
from toolchain.rpc.tied import tied
child = subprocess.Popen(tied(["sleep", "600"]))
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_a_parent_that_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        until(lambda: child.name() == "sleep")
        parent.send_signal(number)
        parent.wait(60)
        until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_it_does_not_begin_where_its_parent_has_ended_already() -> None:
    words = tied(["sh", "-c", "echo ran"])
    words[words.index(str(os.getpid()))] = "1"  # as if the parent had gone: init has taken its place
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
