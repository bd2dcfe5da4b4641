"""edge-rt where memory ends: a sentence whatever is refused, and no wrong cause."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.runtime import networks
from tests.runtime.conftest import Edge
from tests.runtime.stub_drivers import stub

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

THREAD_STACK = 8 << 20  # bytes: Linux's own default, which a caller's shell may have changed
SMALLEST = "128"  # bytes: what glibc itself wants is less, and ends the process without it
COMMANDS = {
    "info": ("info",),
    "run": ("run", "rows.so", "--input", "x.npy", "--output", "o.npz", "--threads", "2"),
    "bench": ("bench", "rows.so", "--input", "x.npy", "--threads", "2", "--repeat", "2", "--profile"),
    "status": ("status", "--field", "field"),
    "recover": ("recover", "--field", "field"),
}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = Path(__file__).with_name("short_memory.c")
    return stub(tmp_path_factory.mktemp("short") / "memory", source=source) / "libOpenCL.so.1"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "rows.so").write_bytes(networks.library("rows", "x86_64"))
    x = np.arange(networks.ROWS * networks.LONG, dtype="float32").reshape(networks.ROWS, networks.LONG)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "field").mkdir(mode=0o700)
    return tmp_path


def ran(
    edge: Edge, place: Path, command: str, before: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    state = () if "--field" in COMMANDS[command] else ("--state", "state")
    return subprocess.run(
        [*edge.command, *COMMANDS[command], *state],
        cwd=place,
        env={**os.environ, **environment},
        preexec_fn=before,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def wrong(done: subprocess.CompletedProcess[str]) -> str:
    """Return what is wrong with how a command ended; empty if it said what it lacks, or lacked nothing."""
    if done.returncode < 0:
        return f"it was ended by {signal.Signals(-done.returncode).name}: {done.stderr}"
    if done.returncode == 0:
        return ""
    error = json.loads(done.stdout.splitlines()[-1]).get("error", {})
    if error.get("kind") == "memory" and re.search(
        r"there is not enough memory|no further thread", done.stderr
    ):
        return ""
    # The C library says why it maps or opens nothing.
    if re.search(r"Cannot allocate memory|cannot (map|allocate|open|create)|failed to map", done.stderr):
        return ""
    return f"{done.returncode}: {done.stdout}{done.stderr}"


def requests(
    edge: Edge, place: Path, command: str, short: Path
) -> Iterator[subprocess.CompletedProcess[str]]:
    """Run a command once for each request for memory that it makes, which is refused."""
    shim = {"LD_PRELOAD": str(short), "SHORT_FROM": SMALLEST}
    count_file = place / "told"
    assert ran(edge, place, command, SHORT_AT="0", SHORT_TELL=str(count_file), **shim).returncode == 0
    count = int(count_file.read_text())
    assert count > 3
    for number in range(1, count + 1, max(1, count // 150)):
        yield ran(edge, place, command, SHORT_AT=str(number), **shim)


@pytest.mark.parametrize("command", COMMANDS)
def test_failed_allocation_is_reported(native: Edge, place: Path, command: str, short: Path) -> None:
    ends = [wrong(done) for done in requests(native, place, command, short)]
    assert [end for end in ends if end] == []


def test_cpu_features_or_out_of_memory(native: Edge, place: Path, short: Path) -> None:
    """A CPU that seems to have none refuses every network as made for another."""
    ends = [json.loads(done.stdout) for done in requests(native, place, "info", short) if not done.returncode]
    assert ends and all("sse2" in end["cpu_features"] for end in ends)


def test_network_without_memory_fails_or_computes_correctly(native: Edge, place: Path) -> None:
    """By `ulimit -v`, from where the library cannot be mapped to where all is there."""
    codes = set()
    for kib in range(17_000, 40_000, 500):
        done = ran(native, place, "run", lambda kib=kib: limit(kib))  # type: ignore[misc]
        assert wrong(done) == "", kib
        codes.add(done.returncode)
        if done.returncode == 0:
            x = np.load(place / "x.npy")
            np.testing.assert_array_equal(np.load(place / "o.npz")["output_0"], x[:, ::-1])
    assert codes == {0, 1}


def limit(kib: int) -> None:
    """Leave a process an address space; a thread asks for as much of it as `ulimit -s` says."""
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (THREAD_STACK, most))
    resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024))


def test_threads_that_cannot_start_are_reported(native: Edge, place: Path) -> None:
    done = ran(native, place, "run", lambda: limit(12_000))
    assert done.returncode == 1
    assert "no further thread can be started: " in done.stderr and "ulimit" in done.stderr
