"""`toolchain demo`: what is said before anything is done. tests/e2e/test_demo.py goes the whole way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.measuring.small_network import INPUT
from toolchain.errors import ToolchainError
from toolchain.tuning.options import TuneOptions

DEMOS = [
    (["nosuch.onnx"], ["nosuch.onnx"]),
    (["good.onnx", "--board", "rk3388"], ["rk3388: there is no such board", "rk3399"]),
    (["good.onnx", "--board", "local", "--input", "data=good.npy"], ["--input data", INPUT]),
    (["good.onnx", "--timeout", "0"], ["--timeout"]),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), DEMOS, ids=[" ".join(row[0]) for row in DEMOS])
def test_what_cannot_be_used(invoke: Toolchain, files: Path, arguments: list[str], says: list[str]) -> None:
    refused(invoke, files, 2, says, "demo", *arguments)


def test_its_options_reach_the_run(invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object) -> None:
        (how,) = (each for each in arguments if isinstance(each, TuneOptions))
        raise ToolchainError(f"{how.trials} trials of {how.timeout_s:g} s", "no hint")

    monkeypatch.setattr("toolchain.demo.run_demo", stop)
    refused(invoke, files, 1, ["4 trials of 300 s"], "demo", "good.onnx", "--trials", "4", "--timeout", "300")


@pytest.mark.usefixtures("state")
def test_a_folder_that_cannot_be_written_is_told_before_a_board_is_started(
    invoke: Toolchain, files: Path
) -> None:
    refused(invoke, files, 1, ["cannot write good.onnx/out/"], "demo", "good.onnx", "-o", "good.onnx/out")
    assert "tuning" not in invoke("demo", "good.onnx", "-o", "good.onnx/out").err
