"""From a network to a bundle without the command line, where a command never is: threads, event loops."""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import sys
from pathlib import Path

import pytest

import toolchain
from toolchain.boards.inventory.lookup import find_board

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def convolution(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert state
    file = tmp_path / "convolution.onnx"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["convolution.py", str(file)])
        runpy.run_path(str(ROOT / "docs" / "examples" / "convolution.py"))
    return file


@pytest.mark.slow
@pytest.mark.parametrize("where", ["thread", "event loop"])
def test_nothing_of_the_process_changes(
    where: str, convolution: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No output, no handler, no variable, no folder: a notebook, pytest and a server can call it."""

    def whole_way() -> bool:
        board = find_board("local")
        model = toolchain.load(convolution)
        built = toolchain.build(model, board, tmp_path / "out")
        bundle = toolchain.read_bundle(built.bundle)
        return all(result.passed for result in toolchain.verify(bundle, board))

    async def loop() -> bool:
        return whole_way() if where == "event loop" else await asyncio.to_thread(whole_way)

    toolchain.load(convolution)  # what libraries set once, when they are imported
    before = [signal.getsignal(number) for number in SIGNALS], dict(os.environ), Path.cwd()
    capfd.readouterr()
    assert asyncio.run(loop())
    assert ([signal.getsignal(number) for number in SIGNALS], dict(os.environ), Path.cwd()) == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_integers_and_floats_are_not_mixed(convolution: Path, tmp_path: Path) -> None:
    floats = toolchain.load(convolution)
    integers = toolchain.load(str(convolution), toolchain.ModelOptions(quantizer="mse"))
    code = toolchain.CodeOptions(dtype="int8")
    with pytest.raises(toolchain.ToolchainError, match=r"loaded in floats, and its code .* in int8") as error:
        toolchain.build(floats, "rk3399", tmp_path, toolchain.BuildOptions(code=code))
    assert "ModelOptions(quantizer=" in (error.value.hint or "")
    with pytest.raises(toolchain.ToolchainError, match=r"loaded quantised, and its code .* in float32"):
        toolchain.list_tasks(integers, "rk3399")
    names = [task.name for task in toolchain.list_tasks(integers, "rk3399", code)]
    assert len(names) == 2 and "conv" in names[0] and "quantize" in names[1]
    assert not list(tmp_path.glob("*.bundle"))


@pytest.mark.slow
def test_misuse_raises_toolchain_error(convolution: Path, tmp_path: Path) -> None:
    with pytest.raises(toolchain.ToolchainError, match=r"nothing\.onnx"):
        toolchain.load(tmp_path / "nothing.onnx")
    model = toolchain.load(convolution)
    with pytest.raises(toolchain.ToolchainError, match="there is no such board"):
        toolchain.build(model, "rk3388", tmp_path)
    with pytest.raises(toolchain.ToolchainError, match="needs a board"):
        toolchain.tune(model, "rk3399")
    built = toolchain.build(model, "rk3399", tmp_path)
    with pytest.raises(toolchain.ToolchainError, match="local"):
        toolchain.verify(built.bundle, "local")
