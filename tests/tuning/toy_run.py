"""A task of the toy backend in a run, for tests that need neither a board nor a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from edge_toy.backend import InProcess, NumpyCode, NumpyProduct, Product, Tiles, ToySpace

from toolchain.files.scratch import scratch_folder
from toolchain.records.record import Provenance, RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import Case, Parameter, TaskReference, write_case
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import Cases, compute, drawn
from toolchain.tuning.context import RunContext
from toolchain.tuning.task_run import TaskRun
from toolchain.tuning.tuners.table import GridSearch

SHAPES = ((16, 64), (64, 64), (16, 64))
TASK = Product("c0ffee00" * 2, "matmul", 2, 2 * 16 * 64 * 64, SHAPES)
KEY = RecordKey(TASK.workload, "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3", 1, "toy", "toy:numpy")


class Told(InProcess):
    """Runs candidates, and says of their times what it was told.

    Parameters
    ----------
    ms
        By tiles; of all others: 1.
    wrong_at_zero
        Tiles whose code forgets about zeros: it is right for every other input.
    modelled
        It is a model that says so.
    """

    def __init__(
        self,
        ms: Mapping[Tiles, float],
        wrong_at_zero: frozenset[Tiles] = frozenset(),
        *,
        modelled: bool = False,
    ) -> None:
        super().__init__()
        self.ms, self.wrong_at_zero, self.modelled = ms, wrong_at_zero, modelled

    def _run(self, code: object, cases: object) -> Result:
        assert isinstance(code, NumpyCode)
        broken = Forgetful(code.tiles) if code.tiles in self.wrong_at_zero else code
        result = super()._run(broken, cases)
        times = (self.ms.get(code.tiles, 1.0),) * 2
        return result if result.failure else Result(times, modelled=self.modelled)


class Forgetful(NumpyCode):
    """Takes a zero for a one."""

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return super().__call__(np.where(a == 0, np.float32(1), a), b)


class Here(Cases):
    """Computes cases in this process."""

    def _compute(self, task: Task, reference: TaskReference) -> tuple[Case, ...]:
        cases = tuple(
            write_case(self._folder, f"{task.id}-{number}", drawn(reference.parameters, number))
            for number in range(2)
        )
        compute(reference, cases)
        return cases


@contextmanager
def toy_run(
    store: RecordStore, runner: InProcess, *, fresh: bool = False, recorded: Tiles | None = None
) -> Iterator[TaskRun[Any]]:
    """Yield the task in a run of its own, its default measured, and what is `recorded` elsewhere."""
    said = Provenance("run", "", "runtime", "tvm", "ffi", "tool")
    space = ToySpace(TASK)
    with scratch_folder() as folder:
        cases = Here(folder, lambda _text: None)
        cases.begin(TASK, NumpyProduct(tuple(Parameter(shape, "float32") for shape in SHAPES[:2])))
        context = RunContext(
            evaluator=Evaluator(runner, runner),
            cases=cases,
            store=store,
            provenance=said,
            listener=lambda _event: None,
            fresh=fresh,
            key_of=lambda _workload: KEY,
            recorded={TASK.workload: recorded} if recorded else {},
        )
        run = TaskRun(TASK, space, GridSearch(TASK, space, 1), context)
        run.begin()
        yield run


def search(run: TaskRun[Any], count: int) -> int:
    """Measure the next points that the tuner proposes; return how many."""
    proposals = run.propose(count)
    measured = run.measure(proposals)
    run.record(proposals, measured)
    run.learn(proposals, measured)
    return len(proposals)
