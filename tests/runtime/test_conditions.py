"""What a GPU says of itself, by NVIDIA's management library; without that nothing, and nothing fails."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Edge
from toolchain.architectures.table import LINUX
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.rpc.session import open_session
from toolchain.runtime.fingerprint import GLIBC_FLOOR
from toolchain.testbeds.cuda import ensure_emulated_cuda
from toolchain.tuning.boards.conditions import known_conditions

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).with_name("nvml.c")
CUDA, CPU = 2, 1


def library(folder: Path, *options: str) -> Path:
    """Compile NVML as a test has it."""
    target = f"{LINUX['x86_64'].zig_target}.{GLIBC_FLOOR}"
    made = folder / "libnvidia-ml.so.1"
    arguments = ["cc", "-target", target, "-Os", "-shared", "-fPIC", *options, str(SOURCE), "-o", str(made)]
    done = run_zig(arguments, 300, zig_cache_environment())
    assert done.returncode == 0, done.last_lines()
    return made


def asked(
    native: Edge, state: Path, port: int, environment: Mapping[str, str], monkeypatch: Any
) -> list[str]:
    """Return what a session says of the GPU, and of the CPU."""
    monkeypatch.setenv("EDGE_CUDA_DRIVER", str(ensure_emulated_cuda()))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with native.serving(state, port, stderr=subprocess.DEVNULL):
        session = open_session("127.0.0.1", port, "board", 20, 20)
        tvm.runtime.tensor(np.zeros(4, "float32"), session.device("cuda"))
        ask = session.get_function("edge.conditions")
        return [ask(CUDA, 0), ask(CPU, 0), ask(CUDA, 9)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), '{"clock_mhz": 1755.0, "temperature_c": 61.0, "others": 2}'),
        (("-DLITTLE",), '{"clock_mhz": 1755.0, "temperature_c": null, "others": null}'),
        (None, None),
    ],
)
def test_a_session_asks(
    options: tuple[str, ...] | None,
    said: str | None,
    native: Edge,
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = {"EDGE_NVML": "/no/such" if options is None else str(library(tmp_path, *options))}
    with running_tracker() as port:
        gpu, cpu, absent = asked(native, state, port, environment, monkeypatch)
    assert known_conditions("board", gpu) == said
    assert cpu == "null" and known_conditions("board", cpu) is None
    assert known_conditions("board", absent) is None
