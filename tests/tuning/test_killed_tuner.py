"""SIGKILL of the tuner, Ctrl-C, and a second Ctrl-C: what was measured is kept, nothing is measured twice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from tests.waiting import until
from toolchain.records.record import Record
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.rpc import lab

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]

TRIALS = 30  # of about 45 ways to compute the convolution


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of one convolution; records are the test's own."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    weight = np.random.default_rng(0).standard_normal((64, 32, 3, 3)).astype(np.float32)
    model = graph_of(
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
        [tensor_info("x", (1, 32, 28, 28))],
        [tensor_info("y", (1, 64, 28, 28))],
        {"w": weight},
    )
    onnx.save(model, tmp_path / "network.onnx")
    return tmp_path / "network.onnx"


@contextmanager
def tuning(network: Path, said: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Yield a run that has measured three trials; what it says until then is added to `said`."""
    quick = ["--repeat", "1", "--min-repeat-ms", "1", "--trials", str(TRIALS), "-v"]
    program = [sys.executable, "-m", "toolchain", "tune", str(network), "--board", "local", *quick]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stderr is not None
            for line in child.stderr:
                said.append(line)
                if line.split()[:1] == [f"3/{TRIALS}"]:
                    break
            assert child.poll() is None, said
            yield child
        finally:
            child.kill()


def trials(network: Path) -> list[Record]:
    with RecordStore(network.parent / "data" / FILE_NAME) as store:
        return [r for r in store.all() if r.provenance.trial is not None and not r.confirmed]


def test_a_killed_tuner_leaves_nothing_behind_and_the_next_goes_on(network: Path) -> None:
    printed = 0
    for _ in range(2):
        said: list[str] = []
        with tuning(network, said) as child:
            own = psutil.Process(child.pid).children(recursive=True)
            child.send_signal(signal.SIGKILL)
            child.wait(120)
        until(lambda own=own: not any(process.is_running() for process in own))  # type: ignore[misc]
        until(lambda: lab.status() is None)
        printed += 3
        assert len(trials(network)) >= printed, "what was told is on the disk"
    kept = trials(network)
    assert len({record.provenance.run for record in kept}) == 2
    digests = [record.digest for record in kept]
    assert len(digests) == len(set(digests)), "the second run measured nothing that the first one had"


def test_ctrl_c_keeps_what_is_in_flight_and_says_how_to_go_on(network: Path) -> None:
    said: list[str] = []
    with tuning(network, said) as child:
        own = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(signal.SIGINT)
        _out, rest = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "interrupted: finishing what is being built or measured" in rest
    assert (
        "These tasks: " in rest
        and " per inference" in rest
        and "the same command continues from here" in rest
    )
    assert rest.splitlines().count("error: interrupted") == 1
    told = [line for line in [*said, *rest.splitlines()] if " on local" in line and "default" not in line]
    assert 3 <= len(told) == len(trials(network)) < TRIALS
    until(lambda: not any(process.is_running() for process in own))
    until(lambda: lab.status() is None)


def test_a_second_ctrl_c_ends_at_once(network: Path) -> None:
    with tuning(network, []) as child:
        own = psutil.Process(child.pid).children(recursive=True)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert any("press Ctrl-C again to end at once" in line for line in child.stderr)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=300)
    assert child.returncode == 130
    until(lambda: not any(process.is_running() for process in own))
    until(lambda: lab.status() is None)
