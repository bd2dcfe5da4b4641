"""Running the command line as a user does: arguments in, streams and an exit code out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from toolchain.bundles.read import Bundle


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its JSON, which must be all that it printed to stdout."""
        return json.loads(self.out)

    def says(self, *words: str) -> bool:
        """Whether its error message and hint hold all of that."""
        return all(word in self.err for word in words)


Toolchain = Callable[..., Ran]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the empty folder that commands run in."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    return folder


@pytest.fixture
def toolchain(folder: Path) -> Toolchain:
    """Run `toolchain ARGUMENTS` as a process of its own; a traceback is never an answer."""

    def run(*arguments: object, cwd: Path = folder, timeout: float = 120, **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "toolchain", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def invoke(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Toolchain:
    """Run `toolchain ARGUMENTS` in this process, by the same way in: spares the imports."""
    from toolchain.cli import failures
    from toolchain.cli.root import root

    monkeypatch.chdir(folder)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        try:
            code = failures.run(root, [str(argument) for argument in arguments])
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """Return the small network built for this host and for rk3399."""
    from tests.measuring.small_network import built

    return {board: built(board, tmp_path_factory.mktemp(board)) for board in ("local", "rk3399")}


@pytest.fixture
def files(folder: Path) -> Path:
    """Return the commands' folder, with networks and arrays, good and bad ones."""
    import onnx
    from onnx import TensorProto, helper

    from tests.measuring.small_network import network

    good = network(folder / "good.onnx").read_bytes()
    (folder / "truncated.onnx").write_bytes(good[: len(good) // 2])
    (folder / "text.onnx").write_text("this is a letter\n")
    (folder / "empty.onnx").touch()
    (folder / "program.pt2").touch()
    model = onnx.load(folder / "good.onnx")
    onnx.save(
        model, folder / "external.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (folder / "weights.bin").unlink()
    nodes = [
        helper.make_node("Volume", ["x"], ["y"], "volume", domain="mine"),
        helper.make_node("Tidy", ["x"], ["t"], "tidy", domain="mine"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 3])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "yt"]
    graph = helper.make_graph(nodes, "odd", inputs, outputs)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    odd = helper.make_model(graph, opset_imports=sets, ir_version=8)
    onnx.save(odd, folder / "odd.onnx")
    np.save(folder / "good.npy", np.zeros((1, 3, 16, 16), np.float32))
    np.save(folder / "shape.npy", np.zeros((1, 3, 8, 8), np.float32))
    np.save(folder / "dtype.npy", np.zeros((1, 3, 16, 16), np.float64))
    np.save(folder / "objects.npy", np.array([None]), allow_pickle=True)
    (folder / "text.npy").write_text("1 2 3")
    return folder
