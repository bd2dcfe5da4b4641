"""Inputs for candidates, their expected outputs, and the comparison of the two.

The expected outputs are computed on this host while boards measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.files.scratch import scratch_folder
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.tasks.candidate import Case, Parameter, TaskReference, write_case
from toolchain.tasks.draws import TYPES, Draw
from toolchain.tasks.task import Task
from toolchain.tuning.plans.blocks import HALVES, rounds, tolerance_of
from toolchain.tuning.plans.operands import Redrawn

_DRAWS = 2
# The largest convolution of VGG-16 (3.7 GFLOP) takes 2 s per draw on a busy machine.
_REFERENCE_S = 120.0
_ZEROS, _LARGE = 1 / 4, 1 / 64  # shares of zeros and of large values in all draws but the first
_FACTOR = 64.0  # of large values


class ExpectedCases(Protocol):
    """The cases of the tasks of a run."""

    def of(self, task: Task) -> tuple[Case, ...]:
        """Return the cases of a task."""


class Cases:
    """Test inputs with their expected outputs (cases) for each task of a tuning run.

    A worker process computes the outputs once; it may hang or crash.
    """

    def __init__(self, folder: Path, notice: Callable[[str], None]) -> None:
        self._folder, self._notice = folder, notice
        self._worker = Worker()
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._cases: dict[str, Future[tuple[Case, ...]]] = {}

    def begin(self, task: Task, reference: TaskReference) -> None:
        """Start to compute the test inputs and expected outputs of a task, after those begun before."""
        self._cases[task.workload] = self._thread.submit(self._compute, task, reference)

    def of(self, task: Task) -> tuple[Case, ...]:
        """Wait for a task's test inputs and expected outputs; the first inputs are normally distributed."""
        let_signals_end_waits()
        return self._cases[task.workload].result()

    def close(self) -> None:
        """End the worker process that computes expected outputs."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._worker.end()
        self._thread.shutdown(wait=True)

    def _compute(self, task: Task, reference: TaskReference) -> tuple[Case, ...]:
        weights = reference if isinstance(reference, Redrawn) else None
        cases = tuple(
            replace(
                write_case(self._folder, f"{task.workload}-{number}", drawn(reference.parameters, number)),
                drawn={**(weights.drawn if weights else {}), **draws(reference.parameters, number)},
                weights=weights.weights if weights else {},
            )
            for number in range(_DRAWS)
        )
        try:
            self._worker.call(_REFERENCE_S, compute, reference, cases)
        except (TimeoutError, WorkerDiedError, ToolchainError) as error:
            self._notice(
                f"candidates of task {task.id} ({task.name}) are compared with its default only: its "
                f"definition could not be computed on this host: {error}"
            )
        return cases


@contextmanager
def run_cases(notice: Callable[[str], None]) -> Iterator[Cases]:
    """Yield the test inputs of a tuning run, with their expected outputs.

    Afterwards delete their files, and end the worker process that computes the outputs.
    """
    with scratch_folder() as folder:
        cases = Cases(folder, notice)
        try:
            yield cases
        finally:
            cases.close()


def compute(reference: TaskReference, cases: Sequence[Case]) -> None:
    """Compute and write the expected outputs of each case's inputs; runs in a worker process."""
    draws = []
    for case in cases:
        arguments = case.arguments()
        draws.append(
            [
                arguments[place] if parameter.value is None else parameter.value
                for place, parameter in enumerate(reference.parameters)
            ]
        )
    for case, outputs in zip(cases, reference.outputs(draws), strict=True):
        case.expect(outputs)


def drawn(parameters: Sequence[Parameter], draw: int) -> dict[int, Array]:
    """Draw values for all parameters but constants, by index; equal in every process.

    The first draw is normally distributed. In the others a quarter of the values are zeros, as after a ReLU
    or in a padded image, and one in 64 is 64 times as large (8 times in float16), to show lost precision and
    overflow. int8 values are uniform; other integers are 0, since they may be indices.
    """
    alike = draws(parameters, draw)
    return {
        place: alike[place].values()
        if place in alike
        else _values(parameter, np.random.default_rng((draw, place)), draw > 0)
        for place, parameter in enumerate(parameters)
        if parameter.value is None
    }


def draws(parameters: Sequence[Parameter], draw: int) -> dict[int, Draw]:
    """Return those of the values of `drawn` that a board can draw, too, by index."""
    return {
        place: Draw(parameter.dtype, parameter.shape, draw << 16 | place, edges=draw > 0)
        for place, parameter in enumerate(parameters)
        if parameter.value is None and parameter.dtype in TYPES
    }


def _values(parameter: Parameter, random: np.random.Generator, edges: bool) -> Array:
    if parameter.dtype == "bool" and edges:
        return random.random(parameter.shape) < 1 / 2
    if parameter.dtype == "int8":
        drawn = random.integers(-128, 128, parameter.shape, dtype=np.int8)
        outermost = random.choice(np.array([-128, 0, 127], np.int8), parameter.shape)
        return np.where(random.random(parameter.shape) < _ZEROS, outermost, drawn) if edges else drawn
    if not parameter.dtype.startswith("float"):
        return np.zeros(parameter.shape, parameter.dtype)
    values = np.asarray(random.standard_normal(parameter.shape))
    if edges:
        chance = random.random(parameter.shape)
        values = np.where(chance < _ZEROS, 0.0, values)
        values = np.where(chance > 1 - _LARGE, values * _FACTOR, values)
    return values.astype(parameter.dtype)


def wrong(outputs: Sequence[Array], expected: Sequence[Array]) -> str:
    """Return a description of the first wrong output; empty if all are right.

    Values whose expected value is not finite are ignored: random inputs may be outside a function's domain.
    """
    tolerance = tolerance_of(expected)
    for output, wanted in zip(outputs, expected, strict=True):
        exact = wanted.astype(np.float64)
        finite = np.isfinite(exact)
        difference = np.abs(output.astype(np.float64) - exact)[finite]
        scale = np.abs(exact[finite]).max(initial=0.0)
        error = difference.max(initial=0.0)
        if error <= 1 and rounds(wanted) and np.mean(difference > tolerance * scale) <= HALVES:
            continue
        if not error <= tolerance * scale:  # NaN is never less
            return f"differs from the definition by {error:.3g} where values reach {scale:.3g}"
    return ""
