"""The threads of edge-rt: what they compute, whom they wait for, and what they cost while idle."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.measuring.small_network import built
from tests.runtime import loops, networks
from tests.runtime.conftest import Case, Edge
from toolchain.runtime import ensure_runtime

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


@pytest.mark.parametrize(("threads", "spin_us"), [(1, 0), (2, 0), (2, -1), (3, 0), (4, -1)])
def test_parallel_loops(dense: Case, threads: int, spin_us: int) -> None:
    arguments = (ensure_runtime("x86_64").library, dense.library, threads, spin_us)
    command = [sys.executable, loops.__file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    for pieces, indices in answer["pieces"].items():
        assert indices == list(range(int(pieces) or len(indices)))
    assert len(answer["pieces"]["0"]) >= threads
    assert answer["nested"] == sorted([0, 1, 2] * 4)
    assert answer["workers"] == threads
    assert not answer["held_up"]
    assert answer["failure"] == [-1, "ValueError", "a piece is bad"]
    assert answer["after"] == [0, 1, 2, 3, 4]
    assert answer["forked"] == [threads, threads + 1]
    assert answer["signalled"]
    assert answer["idle_s"] < 0.02  # TVM's own pool: 0.05 for each thread


def test_threads_and_spinning_do_not_change_the_numbers(edge: Edge, tmp_path: Path) -> None:
    bundle = built(networks.CLASSES[edge.arch], tmp_path)
    (tmp_path / "net.so").write_bytes(bundle.library)
    (sample,) = bundle.sample.values()
    np.save(tmp_path / "x.npy", sample)
    results = []
    for threads, spin_us in itertools.product(("1", "2", "3"), ("0", "50")):
        options = ("--threads", threads, "--spin-us", spin_us, "--output", tmp_path / "o.npz")
        code, answer = edge(
            "run", tmp_path / "net.so", "--input", tmp_path / "x.npy", "--state", tmp_path, *options
        )
        assert code == 0, answer
        crowded = int(threads) > len(os.sched_getaffinity(0))
        assert (answer["threads"], answer["spin_us"]) == (int(threads), 0 if crowded else int(spin_us))
        with np.load(tmp_path / "o.npz") as outputs:
            results.append([outputs[name].tobytes() for name in outputs])
    assert all(outputs == results[0] for outputs in results)


@pytest.mark.parametrize("value", ["-1", "1000001", "soon"])
def test_refuses_invalid_thread_counts(native: Edge, dense: Case, value: str) -> None:
    code, answer = native("bench", *dense.arguments, "--spin-us", value)
    assert (code, answer["error"]["kind"]) == (2, "usage")
    assert f"--spin-us {value}" in answer["error"]["message"]
