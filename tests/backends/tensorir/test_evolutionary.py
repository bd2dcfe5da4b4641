"""A search that is interrupted while TVM calls back into Python."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from tests.building.network import written
from toolchain.backends.table import backend_for
from toolchain.backends.tensorir import rules
from toolchain.backends.tensorir.backend import Evolutionary, Lessons
from toolchain.backends.tensorir.space import TraceSpace
from toolchain.boards.inventory.lookup import find_target
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.processes.interrupts import uninterrupted
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.tuner import Result


@derived_object
class InterruptedModel(ms.cost_model.PyCostModel):
    """A cost model during whose guesses Ctrl-C is typed."""

    def predict(self, _context: ms.TuneContext, candidates: list[ms.MeasureCandidate]) -> np.ndarray:
        signal.raise_signal(signal.SIGINT)
        return np.arange(len(candidates), dtype="float64")


@pytest.mark.slow
def test_ctrl_c_within_tvm_is_an_interrupt_and_no_crash(tmp_path: Path) -> None:
    backend = backend_for(find_target("local").profile, CodeOptions(layout="NCHW"))
    model = load_model(str(written(tmp_path)), ModelOptions())
    with backend.lower(model, backend.target()) as network:
        space = network.space(network.tasks[0])
        assert isinstance(space, TraceSpace)
        search = Evolutionary(space, Lessons(InterruptedModel()), 1)
        with pytest.raises(KeyboardInterrupt):
            search.propose(4)
        search.close()


class Training:
    """A cost model that notes what it is trained with."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, int, int]] = []

    def update(self, context: object, candidates: list[object], results: list[object]) -> None:
        self.heard.append((context, len(candidates), len(results)))


def test_a_model_is_trained_once_for_each_task_when_it_is_asked_for() -> None:
    model = Training()
    lessons = Lessons(model)
    first, second = tvm.IRModule(), tvm.IRModule()  # contexts would import the intrinsics of every device
    for context, count in ((first, 2), (second, 1), (first, 3)):
        lessons.add(context, [object()] * count, [object()] * count)
    assert not model.heard
    assert lessons.learned() is model
    assert [(context.same_as(first), *counts) for context, *counts in model.heard] == [  # type: ignore[attr-defined]
        (True, 5, 5),
        (False, 1, 1),
    ]
    lessons.learned()
    assert len(model.heard) == 2


def test_signals_are_put_off_not_lost() -> None:
    before = signal.getsignal(signal.SIGINT)
    reached = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        reached = True
    assert reached and signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_results_may_come_late_and_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is proposed while others are in flight; nothing comes twice, nor what an earlier run measured."""
    monkeypatch.setattr(rules, "_POPULATION", 16)
    backend = backend_for(find_target("local").profile, CodeOptions(layout="NCHW"))
    model = load_model(str(written(tmp_path)), ModelOptions())
    with backend.lower(model, backend.target()) as network:
        task = network.tasks[0]
        space = network.space(task)
        assert isinstance(space, TraceSpace)

        def search(seed: int) -> Evolutionary:
            return Evolutionary(space, Lessons(ms.cost_model.RandomModel()), seed)

        first = search(1)
        flying = [first.propose(4) for _ in range(3)]
        points = [point for batch in flying for point in batch]
        assert len(points) == len(set(points)) == 12
        for batch in reversed(flying):
            first.learn([(point, Result((1.0 + place,))) for place, point in enumerate(reversed(batch))])
        assert not first.flying
        assert len(first.database.get_all_tuning_records()) == len(points)
        later = first.propose(4)
        assert later and not set(later) & set(points)
        first.learn([(later[0], Result(failure="runtime")), (points[0], Result((1.0,)))])
        first.close()

        again = search(1)  # proposes the same but for what was learned
        again.learn([(space.default(), Result((1.0,))), *((point, Result((1.0,))) for point in points)])
        resumed = again.propose(8)
        assert resumed and not set(resumed) & {space.default(), *points}
        again.close()
