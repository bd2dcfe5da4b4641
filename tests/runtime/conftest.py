"""edge-rt for all architectures, as a user would run it; compiled once for all tests."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil
import pytest

from tests.rpc.peers import running_tracker
from tests.runtime import networks
from toolchain import runtime
from toolchain.boards.emulation.qemu import emulator
from toolchain.profiles import load_profile


@dataclass(frozen=True)
class Edge:
    """edge-rt as a command line of this host."""

    arch: str
    command: tuple[str, ...]

    def __call__(self, *arguments: str | Path) -> tuple[int, Any]:
        """Run it; return the exit code and the one document that it printed."""
        done = subprocess.run([*self.command, *map(str, arguments)], capture_output=True, timeout=60)
        document = json.loads(done.stdout)
        if done.returncode != 0:
            words = done.stderr.decode().splitlines()
            assert [line for line in words if line.startswith("edge-rt: ")], words
        return done.returncode, document

    @contextmanager
    def serving(
        self, state: Path, port: int, *options: str, stderr: IO[bytes] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a server with the key `board`; yield once it is registered."""
        arguments = ["serve", "--tracker", f"127.0.0.1:{port}", "--key", "board", "--state", str(state)]
        process = subprocess.Popen(
            [*self.command, *arguments, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        try:
            assert process.stdin and process.stdout
            secret = json.loads(process.stdout.readline())["secret"]
            assert re.fullmatch(r"[0-9a-f]{32}", secret)
            ready = json.loads(process.stdout.readline())
            assert ready["host"] == "127.0.0.1" and ready["port"] > 0
            yield process
            process.stdin.close()
            assert process.wait(timeout=60) in (0, -signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        assert not list((state / "sessions").iterdir())


def address_of(server: subprocess.Popen[bytes]) -> tuple[str, int]:
    """Return where a server itself listens: the tracker gives its clients a gate."""
    (address,) = [c.laddr for c in psutil.Process(server.pid).net_connections() if c.status == "LISTEN"]
    return str(address[0]), int(address[1])


def edge_for(arch: str) -> Edge:
    """Return edge-rt for an architecture; it runs under qemu unless it is this host's."""
    program = str(runtime.ensure_runtime(arch).program)
    return Edge(arch, (*emulator(load_profile(networks.CLASSES[arch])), program))


@pytest.fixture(scope="session")
def native() -> Edge:
    return edge_for("x86_64")


@pytest.fixture(scope="session", params=["x86_64", "aarch64", "armv7"])
def edge(request: pytest.FixtureRequest) -> Edge:
    return edge_for(request.param)


@pytest.fixture(scope="session")
def tracker() -> Iterator[int]:
    with running_tracker() as port:
        yield port


@dataclass(frozen=True)
class Case:
    """The network `dense` with inputs, in a folder."""

    library: Path
    x: np.ndarray
    bias: np.ndarray
    arguments: tuple[str | Path, ...]


@pytest.fixture
def dense(tmp_path: Path) -> Case:
    return _case(tmp_path, "x86_64")


@pytest.fixture
def dense_there(tmp_path: Path, edge: Edge) -> Case:
    return _case(tmp_path, edge.arch)


def _case(folder: Path, arch: str) -> Case:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 8), dtype="float32")
    bias = generator.standard_normal(16, dtype="float32")
    np.save(folder / "x.npy", x)
    np.save(folder / "bias.npy", bias)
    library = folder / "dense.so"
    library.write_bytes(networks.library("dense", arch))
    state = ("--state", folder / "state")
    inputs = ("--input", f"x={folder / 'x.npy'}", "--input", folder / "bias.npy")
    return Case(library, x, bias, (library, *inputs, *state))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def server(native: Edge, state: Path, tracker: int) -> Iterator[subprocess.Popen[bytes]]:
    with native.serving(state, tracker) as process:
        yield process
