"""The search for how generated code computes one task: its choices, in the order of their promise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tvm

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.policy import candidates, default_choice, recorded_choice
from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.kinds import CPU
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.alone import alone
from toolchain.backends.packed.network.rewrite import Made
from toolchain.backends.packed.recognise.work import Work
from toolchain.lowering.rows import default_schedule
from toolchain.lowering.tasks import Task
from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tuning.candidate import Candidate
from toolchain.tuning.measure import Measured


class ChoiceSearch:
    """Proposes the choices of one task; see `candidate.Search`.

    A task that the general rule computes has none but its default.
    """

    def __init__(self, task: Task, machine: Machine, use_winograd: bool) -> None:
        self.task, self.machine, self.use_winograd = task, machine, use_winograd
        self.measured: set[str] = set()
        self.space: list[Choice] = []

    def default(self) -> Candidate:
        """Return what a build generates without a record."""
        chosen: Choice = GENERAL

        def choose(work: Work) -> Choice:
            nonlocal chosen
            chosen = self._default(work)
            self.space = [
                choice
                for choice in candidates(work, self.machine)
                if choice != chosen and (self.use_winograd or choice.algorithm != "winograd")
            ]
            return chosen

        made = self._made(choose)  # calls `choose`, which says what is chosen
        return self._as(chosen, made)

    def recorded(self, record: Record, definition: str) -> Candidate:
        """Return what a record says."""
        del definition  # a choice needs no names of the function it was measured for
        made = self._made(lambda work: recorded_choice(record.payload, work, self.machine, self.use_winograd))
        return self._as(choice_from(record.payload), made)

    @property
    def size(self) -> int:
        """How many candidates there are that were not measured before."""
        return len(self._new())

    def learn_earlier(self, store: RecordStore, key: RecordKey) -> None:
        """Leave out what was measured before."""
        self.measured = store.measured(key)

    @contextmanager
    def batches(self, trials: int, batch: int) -> Iterator[Iterator[list[Candidate]]]:
        """Yield the choices that were not measured before."""
        new = self._new()[:trials]
        yield (
            [self._candidate(choice) for choice in new[start : start + batch]]
            for start in range(0, len(new), batch)
        )

    def learn(self, measured: list[Measured]) -> None:
        """Do nothing: the order is fixed."""

    def _new(self) -> list[Choice]:
        return [choice for choice in self.space if self._digest(choice) not in self.measured]

    def _candidate(self, choice: Choice) -> Candidate:
        return self._as(choice, self._made(lambda _work: choice))

    def _as(self, choice: Choice, made: Made) -> Candidate:
        module = tvm.IRModule({"main": made.func.with_attr("global_symbol", "main")})
        payload, digest = choice.to_json(), self._digest(choice)
        return Candidate(CPU, payload, digest, module, made.parameters, self.task.outputs)

    def _digest(self, choice: Choice) -> str:
        return hashlib.sha256(f"{CPU} {choice.to_json()}".encode()).hexdigest()

    def _made(self, choose: Callable[[Work], Choice]) -> Made:
        func = self.task.func
        return alone(
            func,
            self.task.call,
            self.machine,
            lambda name, work: self._default(work) if name is None else choose(work),
            lambda _name: default_schedule(func),
        )

    def _default(self, work: Work) -> Choice:
        return default_choice(work, self.machine, self.use_winograd)
