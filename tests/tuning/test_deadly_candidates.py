"""Candidates that hang, crash or write over memory on a real board: they cost those beside them nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tvm import te

from benchmarks.tuners.c_function import CFunction
from toolchain.boards.inventory.lookup import local_board
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.rpc import lab
from toolchain.targets.target import target_for
from toolchain.tasks.candidate import Candidate, CandidateCode, Entry, Parameter, write_case
from toolchain.tuning.boards.planned import SWITCH
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.events import Event, StepBegan
from toolchain.tuning.options import TuneOptions

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
TASK = SimpleNamespace(id="c0ffee", name="doubled", workload="c0ffee", flops=4)
PARAMETERS = (Parameter((4,), "float32"), Parameter((4,), "float32"))
ACTS = Path(__file__).with_name("deadly.c")
# What each does once it has computed what it should, and what may come of that.
DEADLY: dict[str, set[str | None]] = {
    "hang()": {"timeout"},
    "crash()": {"runtime"},
    "spoil_heap()": {"runtime"},
    "spoil_around_output(arguments)": {"runtime"},
    "spoil_arguments(arguments)": {"runtime"},
    "smash_stack()": {"runtime"},
    "clear_program()": {"runtime", None},  # nothing of it may be needed again
    "send_nonsense()": {"runtime"},
    "spoil_input(arguments)": {None},
}


def candidate(code: CandidateCode) -> Candidate:
    return Candidate(Entry("", "", ""), code, PARAMETERS, 1)


def deadly(act: str) -> Candidate:
    body = f"Argument *arguments = b; double_it(arguments); return {act};"
    return candidate(CFunction(body, before=f'#include "{ACTS}"'))


@pytest.mark.parametrize("by_plans", [False, True])
def test_they_cost_themselves(by_plans: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1" if by_plans else "")
    board = local_board()
    target = target_for(board.profile, None, 1)
    x = te.placeholder((4,), name="x")
    doubled = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + x[i], name="y")])
    sound = candidate(code_of(Scheduled(doubled), target.target))
    case = write_case(tmp_path, "case", {0: np.arange(4, dtype=np.float32)})
    case.expect([2 * np.arange(4, dtype=np.float32)])
    how = TuneOptions(repeat=2, min_repeat_ms=1, timeout_s=5)
    events: list[Event] = []
    with board_evaluator([board], target, how, events.append) as evaluator:
        evaluator.runner.expect(TASK, [case])
        batch = [sound]
        for act in DEADLY:
            batch += [deadly(act), sound]
        built = evaluator.builder.build(batch)
        assert [each.failure for each in built] == [None] * len(batch)
        assert len({each.library for each in built}) == 1
        results = evaluator.runner.run(TASK, built)
        status = lab.status()
        assert status is not None
        assert status.boards["local"].state == "serving"
    came = {act: result.failure for act, result in zip(DEADLY, results[1::2], strict=True)}
    assert not {act: failure for act, failure in came.items() if failure not in DEADLY[act]}
    assert [result.failure for result in results[::2]] == [None] * (len(DEADLY) + 1)
    assert all(result.run_ms for result in results[::2])
    assert [event for event in events if not isinstance(event, StepBegan)] == [], "the board was never away"
    nonsense = results[1::2][list(DEADLY).index("send_nonsense()")].message
    if by_plans:
        assert nonsense == "it spoiled what its process says", "it cannot write to the session"
    else:
        assert nonsense.startswith("board local: its server sent the unknown code ")
    assert lab.status() is None
