"""`toolchain demo`: what is said before anything is done. tests/e2e/test_demo.py goes the whole way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT
from toolchain.boards.inventory.lookup import find_board
from toolchain.demo import DemoRequest, _start_board, demo_options
from toolchain.errors import ToolchainError

DEMOS = [
    (["nosuch.onnx"], ["nosuch.onnx"]),
    (["good.onnx", "--board", "rk3388"], ["rk3388: there is no such board", "rk3399"]),
    (["good.onnx", "--board", "local", "--input", "data=good.npy"], ["--input data", INPUT]),
    (["good.onnx", "--timeout", "0"], ["--timeout"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), DEMOS, ids=[" ".join(row[0]) for row in DEMOS])
def test_refuses_unusable_arguments(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, "demo", *arguments)


def test_demo_passes_limits_on(invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(request: DemoRequest, *_callbacks: object) -> None:
        raise ToolchainError(f"{request.trials} trials of {request.timeout_s:g} s", "no hint")

    monkeypatch.setattr("toolchain.demo.run_demo", stop)
    refused(invoke, files, 1, ["4 trials of 300 s"], "demo", "good.onnx", "--trials", "4", "--timeout", "300")


def test_an_emulated_board_gets_few_trials_unless_more_are_asked_for() -> None:
    real = find_board("local")
    board = replace(real, emulated=True)
    assert (demo_options(real).trials, demo_options(real).heaviest) == (32, 4)
    assert (demo_options(board).trials, demo_options(board).heaviest) == (4, 1)
    assert (demo_options(board, 16).trials, demo_options(board, 16).heaviest) == (16, 4)
    assert demo_options(board, timeout_s=3).timeout_s == 3


@pytest.mark.usefixtures("state")
def test_refuses_unwritable_folder_before_starting_board(invoke: Toolchain, files: Path) -> None:
    refused(invoke, files, 1, ["cannot write good.onnx/out/"], "demo", "good.onnx", "-o", "good.onnx/out")
    assert "tuning" not in invoke("demo", "good.onnx", "-o", "good.onnx/out").err


def test_a_host_without_an_emulator_is_told_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise ToolchainError("no qemu on this machine", "apt-get install it")

    monkeypatch.setattr("toolchain.demo.stored.names", list)
    monkeypatch.setattr("toolchain.demo.emulated.start", start)
    notes: list[str] = []
    assert _start_board(notes.append).name == "local"
    assert len([note for note in notes if "no qemu" in note]) == 1, notes
