"""Uses an installed wheel as a user would on the first day; nothing of the checkout may be needed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NETWORK = "tiny.onnx"
CLASS = "rk3399"


class WheelError(Exception):
    """A command of the installed wheel does not do what it should."""


class Installed(Protocol):
    """A place where the toolchain is installed from a wheel."""

    def run(
        self, *arguments: object, cwd: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `toolchain ARGUMENTS` in a folder; its streams are in the result."""


@dataclass(frozen=True)
class FirstDay:
    """The commands of a first day with an installed wheel.

    Attributes
    ----------
    place
        Where the wheel is installed.
    folder
        Where they are typed.
    more
        Environment beside an empty home's, such as a cache folder.
    tell
        Called with each command before it runs.
    """

    place: Installed
    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _line: None

    def walk(self, version: str, docker: bool = True) -> None:
        """Type them all.

        Raises
        ------
        WheelError
            One failed, or printed something else than it should.
        """
        said = self._run("--version").strip()
        _expect(said == f"toolchain {version}", f"--version: {said}")
        self._look_around(docker)
        network = write_network(self.folder / NETWORK)
        self._compile(network)
        self._export()

    def _look_around(self, docker: bool) -> None:
        models = {each["name"] for each in self._json("model", "list")}
        _expect("zoo:mobilenet" in models, f"model list: {sorted(models)}")
        boards = {each["name"] for each in self._json("board", "list")}
        _expect("local" in boards, f"board list: {sorted(boards)}")
        classes = self._run("board", "list").splitlines()[-1]
        _expect(CLASS in classes, f"board list: {classes}")
        missing = [each for each in self._json("doctor")["checks"] if each["state"] == "missing"]
        _expect(not missing, f"doctor: {missing}")
        if docker:
            images = {each["name"] for each in self._json("image", "list")}
            _expect({"base", "aarch64", "cuda"} <= images, f"image list: {sorted(images)}")
        self._json("init")

    def _compile(self, network: Path) -> None:
        built = self._json("build", network, "--board", CLASS, "-o", "out", "--engine", "host")
        _expect(Path(built["bundle"]).is_file(), f"build --board {CLASS}: {built}")
        done = self._json("demo", network, "--board", "local", "--trials", "2", "-o", "demo")
        _expect(done["verify"]["passed"] is True, f"demo: {done['verify']}")
        _expect(done["tune"]["failed"] == 0, f"demo: {done['tune']}")
        _expect("<svg" in Path(done["report"]).read_text(), "demo: the report has no plot")
        verified = self._json("verify", done["bundle"], "--board", "local")
        _expect(verified["passed"] is True, f"verify: {verified}")
        _expect(bool(self._json("records", "list")), "records list: the demo's records are not there")

    def _export(self) -> None:
        written = self._json("runtime", "export", "--board", "local", "-o", "runtime")
        _expect(Path(written["library"]).is_file(), f"runtime export: {written}")

    def _json(self, *arguments: object) -> Any:
        return json.loads(self._run(*arguments, "--json"))

    def _run(self, *arguments: object) -> str:
        typed = " ".join(["toolchain", *map(str, arguments)])
        self.tell(typed)
        done = self.place.run(*arguments, cwd=self.folder, more=self.more)
        _expect(done.returncode == 0, f"{typed}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def write_network(path: Path) -> Path:
    """Write a convolution with a ReLU, an average and a dense layer."""
    random = np.random.default_rng(3)
    weights = {
        "conv_w": random.standard_normal((8, 3, 3, 3)).astype(np.float32),
        "dense_w": random.standard_normal((8, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "conv_w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("MatMul", ["flat", "dense_w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise WheelError(otherwise)
