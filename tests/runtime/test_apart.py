"""Work in a process of its own: how its end is told, and that nobody else's process is killed for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolchain.architectures.table import LINUX
from toolchain.linking.zig import zig_cache_environment, zig_program
from toolchain.runtime.fingerprint import GLIBC_FLOOR, NATIVE

pytestmark = pytest.mark.slow  # compiled by zig

CLEAN = {"answer": "answer", "in_time": True, "signal": 0, "code": 0}
EXPECTED: dict[str, dict[str, Any]] = {
    "answers": CLEAN,
    "leaves a process": CLEAN,
    "fails": {"answer": "", "in_time": True, "signal": 0, "code": 7},
    "crashes": {"answer": "", "in_time": True, "signal": signal.SIGSEGV, "code": 0},
    "hangs": {"answer": "", "in_time": False, "signal": 0, "code": 0},
    "answers and hangs": {"answer": "answer", "in_time": False, "signal": 0, "code": 0},
    "hidden": {"failure": "io"},
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("apart") / "apart"
    # As edge-rt is compiled: zig has made what it needs for that already.
    target = f"{LINUX['x86_64'].zig_target}.{GLIBC_FLOOR}"
    sources = [
        Path(__file__).with_name("apart.cc"),
        *(NATIVE / "src" / f"{name}.cc" for name in ("apart", "child", "file", "text")),
    ]
    command = [str(zig_program()), "c++", f"--target={target}", "-std=c++20", "-fPIC", "-Os", f"-I{NATIVE}"]
    command += [f"-I{NATIVE / 'src'}", *map(str, sources), "-o", str(program)]
    subprocess.run(command, check=True, env={**os.environ, **zig_cache_environment()}, timeout=600)
    return program


@pytest.mark.parametrize("case", EXPECTED)
def test_tells_how_work_ended_and_kills_its_own_processes_alone(apart: Path, case: str) -> None:
    done = subprocess.run([apart, case], capture_output=True, text=True, timeout=120, check=True)
    left = 1 if case == "leaves a process" else 0
    assert json.loads(done.stdout) == {**EXPECTED[case], "strangers": 0, "left": left}
