"""Tasks that this host cannot compute: what the first candidate computes is what the others should."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.tuners.c_function import CFunction
from toolchain.boards.inventory.lookup import local_board
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, Entry, Parameter, write_case
from toolchain.tuning.boards.planned import SWITCH
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.options import TuneOptions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
TASK = SimpleNamespace(id="c0ffee", name="scaled", workload="c0ffee", flops=4)
PARAMETERS = (Parameter((4,), "float32"), Parameter((4,), "float32"))
ACTS = Path(__file__).with_name("deadly.c")


def scaling(factor: int) -> Candidate:
    body = f"for (int i = 0; i < 4; i++) data(b, 1)[i] = {factor} * data(b, 0)[i]; return 0;"
    code = CFunction(body, before=f'#include "{ACTS}"')
    return Candidate(Entry("c", str(factor), f"{factor:064}"), code, PARAMETERS, 1)


@pytest.mark.parametrize("by_plans", [False, True])
def test_the_first_candidate_says_what_is_expected(
    by_plans: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1" if by_plans else "")
    board = local_board()
    target = target_for(board.profile, None, 1)
    case = write_case(tmp_path, "case", {0: np.arange(4, dtype=np.float32)})
    how = TuneOptions(repeat=2, min_repeat_ms=1, timeout_s=20)
    with board_evaluator([board], target, how, lambda _event: None) as evaluator:
        evaluator.runner.expect(TASK, [case])
        built = evaluator.builder.build([scaling(2), scaling(2), scaling(3)])
        results = evaluator.runner.run(TASK, built)
    assert [result.failure for result in results] == [None, None, "wrong result"]
    (expected,) = case.expected() or []
    assert np.array_equal(expected, 2 * np.arange(4))
    assert results[2].message == "differs from the definition by 3 where values reach 6"
