"""Candidates of one library on a real board: one that hangs and one that crashes cost the others nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tvm import te

from benchmarks.tuners.c_function import CFunction
from toolchain.boards.inventory.lookup import local_board
from toolchain.lowering.code import code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.rpc import lab
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Code, Entry
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.reference import write_case
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.runner import board_bench

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
TASK = SimpleNamespace(id="c0ffee", name="doubled", workload="c0ffee", flops=4)
PARAMETERS = (Parameter((4,), "float32"), Parameter((4,), "float32"))


def candidate(code: Code) -> Candidate:
    return Candidate(Entry("", "", ""), code, PARAMETERS, 1)


def test_each_costs_itself(tmp_path: Path) -> None:
    board = local_board()
    target = target_for(board.profile, None, 1)
    x = te.placeholder((4,), name="x")
    doubled = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + x[i], name="y")])
    sound = candidate(code_of(Scheduled(doubled), target.target))
    hangs = candidate(CFunction("volatile int n = 1; while (n) {} return 0;"))
    crashes = candidate(CFunction("*(volatile int *)8 = 1; return 0;"))
    case = write_case(tmp_path, "case", {0: np.arange(4, dtype=np.float32)})
    case.expect([2 * np.arange(4, dtype=np.float32)])
    how = TuneOptions(repeat=2, min_repeat_ms=1, timeout_s=6)
    with board_bench([board], target, how, lambda _event: None) as bench:
        bench.runner.expect(TASK, [case])
        built = bench.builder.build([sound, hangs, sound, crashes, sound])
        assert [each.failure for each in built] == [None] * 5
        assert len({each.library for each in built}) == 1
        results = bench.runner.run(TASK, built)
    assert [result.failure for result in results] == [None, "timeout", None, "runtime", None]
    assert all(result.run_ms for result in results[::2])
    assert lab.status() is None
