"""edge-rt with the emulated driver, and what it asked of that."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime import cuda_network
from tests.runtime.conftest import Edge
from tests.runtime.test_opencl import Device
from toolchain.testbeds.cuda import ensure_emulated_cuda

FAILED, USAGE, REQUIRES = 1, 2, 5
QUESTIONS = ("cuDevice", "cuInit", "cuDriver", "cuFuncGet")
X = np.linspace(-3, 3, cuda_network.NUMBERS, dtype="float32")


@dataclass(frozen=True)
class Cuda:
    """edge-rt with the emulated driver, and libraries in a folder."""

    device: Device
    folder: Path

    def __call__(self, verb: str, *arguments: str | Path, **environment: str) -> tuple[int, Any, list[Any]]:
        """Run it; return the exit code, the document, and what the driver was asked."""
        log = self.folder / "log"
        log.unlink(missing_ok=True)
        settings = {"EDGE_CUDA_DRIVER": str(ensure_emulated_cuda()), "EDGE_CUDA_LOG": str(log), **environment}
        code, answer = self.device(verb, *arguments, "--state", self.folder / "state", **settings)
        return code, answer, read(log)

    def network(self, library: bytes, x: np.ndarray = X) -> list[str | Path]:
        """Return the arguments of a network with one input."""
        (self.folder / "net.so").write_bytes(library)
        np.save(self.folder / "x.npy", x)
        return [self.folder / "net.so", "--input", self.folder / "x.npy", "--device", "cuda"]

    def run(
        self, library: bytes, *options: str, x: np.ndarray = X, **environment: str
    ) -> tuple[np.ndarray, Any]:
        """Run a network; return its output and what the driver was asked."""
        file = self.folder / "y.npz"
        code, answer, log = self("run", *self.network(library, x), "--output", file, *options, **environment)
        assert code == 0, answer
        with np.load(file) as outputs:
            return outputs["output_0"], log

    def fails(self, library: bytes, x: np.ndarray = X, **environment: str) -> tuple[int, Any]:
        """Run a network; return the exit code and the error."""
        output = ("--output", self.folder / "y.npz")
        code, answer, _ = self("run", *self.network(library, x), *output, **environment)
        return code, answer["error"]


def read(log: Path) -> list[Any]:
    """Return the driver's log."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def names(log: list[Any]) -> list[str]:
    """Return the names of the calls that do something."""
    return [entry["call"] for entry in log if "call" in entry and not entry["call"].startswith(QUESTIONS)]


def device_of(request: pytest.FixtureRequest, folder: Path) -> Device:
    """Return edge-rt, plain or with sanitizers as the request's parameter says."""
    if request.param == "plain":
        native: Edge = request.getfixturevalue("native")
        return Device(native.command[-1], folder)
    from tests.fuzz import sanitized

    return Device(str(sanitized.build()), folder, sanitized.OPTIONS)
