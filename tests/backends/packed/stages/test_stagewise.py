"""The general rule: right for every operator, on packed and plain values, never beyond a buffer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.backends.packed.networks import CASES, ELEMENTWISE, MOVES, NORMS, POOLS, REDUCTIONS, Case

GROUPS = {
    "pools": POOLS,
    "reductions": REDUCTIONS,
    "norms": NORMS,
    "elementwise": ELEMENTWISE,
    "moves": MOVES,
}
# What TVM computes by a function of its own, which no rule knows.
ROWS = {"topk", "cumsum", "scatter_elements"}


def outcome(cases: tuple[Case, ...], lanes: int, kind: str) -> None:
    """Run networks in a process of their own, and look at what it says."""
    names = [case.name for case in cases]
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.packed.operators", str(lanes), kind, *names],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TVM_NUM_THREADS": "2"},
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    missing = [name for name in names if name not in {each["name"] for each in found}]
    assert done.returncode == 0, f"ended with {done.returncode} at {missing[:1]}: {done.stderr[-1500:]}"
    assert not missing
    for each in found:
        assert each["error"] < 2e-5, each
        assert not each["different"], each
        rows = {name for name, rule in each["rules"].items() if rule == "rows"}
        assert rows <= ROWS, each


@pytest.mark.slow
def test_one_of_each_kind_with_16_lanes() -> None:
    chosen = {"MaxPool ceil", "ReduceMean [1]", "softmax last", "squeeze and excite", "concat of concats"}
    outcome(tuple(case for case in CASES if case.name in chosen), 16, "packed")


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("lanes", [16, pytest.param(8, marks=pytest.mark.full), 4])
def test_packed_values(group: str, lanes: int) -> None:
    # 8 and 4 lanes differ from 16 in remainders only: a third of the networks each
    cases = GROUPS[group]
    outcome(cases if lanes == 16 else cases[{8: 0, 4: 1}[lanes] :: 3], lanes, "packed")


@pytest.mark.slow
@pytest.mark.parametrize("group", ["reductions", "norms", "elementwise", "moves"])
def test_plain_values(group: str) -> None:
    outcome(GROUPS[group], 8, "plain")
