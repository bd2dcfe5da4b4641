"""The space of one task: all choices (algorithms with their parameters) that can compute it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.policy import candidates, cost
from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.features import contraction_of, features
from toolchain.backends.packed.kinds import KINDS, TFLOAT32_KINDS, allowed, excluded, usable
from toolchain.backends.packed.network.alone import alone, contraction
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.lowering.kernels.code import code_of
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.finite import Decisions, FiniteSpace


class PackedSpace(FiniteSpace[Choice]):
    """The choices of one task; see `tasks.space.Space`. A task without a contraction has one point."""

    kinds: tuple[str, ...] = KINDS

    def __init__(self, task: FusedTask, target: BoardTarget, choices: Choices) -> None:
        self.task, self.target, self.choices = task, target, choices
        self.kinds = TFLOAT32_KINDS if choices.machine.rounds else KINDS
        self.excluded = excluded(choices.winograd)
        self.usable, self.allowed = usable(choices.winograd), allowed(choices.winograd)

    @cached_property
    def contraction(self) -> Contraction | None:
        """The contraction of the task's function; None if there is nothing to choose."""
        return contraction(self.task, self.choices)

    @cached_property
    def points(self) -> list[Choice]:
        """All choices: the default, then the most promising first."""
        if self.contraction is None:
            return [GENERAL]
        found = [self.choices.of(None, self.contraction), *candidates(self.contraction, self.choices.machine)]
        return [point for point in dict.fromkeys(found) if self.legal(point)]

    def legal(self, point: Choice) -> bool:
        """Return whether a choice computes the task."""
        if self.contraction is None:
            return point == GENERAL
        return self.choices.permits(point, self.contraction)

    def decisions(self, point: Choice) -> Decisions:
        """Return the choice's algorithm and all its knobs, those that records omit included."""
        return {"algorithm": point.algorithm, "group": point.group, "loads": point.loads, **point.knobs}

    def estimated_ms(self, point: Choice) -> float | None:
        """Return the estimated time of a call in ms; None if the choice's algorithm has no cost model."""
        if self.contraction is None:
            return None
        found = cost(point, self.contraction, self.choices.machine)
        return None if found is None else 1e3 * found.seconds

    def features(self, point: Choice) -> list[float]:
        """Return features of the choice, of the task, and of both together."""
        return features(point, self.contraction, self.choices.machine)

    def foreign_features(self, entry: Entry, definition: str) -> list[float]:
        """Return the features of another task's choice, as if this machine computed that task.

        Raises
        ------
        ToolchainError
            The choice is unknown to this version.
        """
        return features(choice_from(entry.payload), contraction_of(definition), self.choices.machine)

    def adapted(self, entry: Entry, definition: str) -> Choice | None:
        """Return another task's choice, or the one most like it; None if its algorithm does not apply here.

        Raises
        ------
        ToolchainError
            The choice is unknown to this version.
        """
        del definition
        decisions = self.decisions(choice_from(entry.payload))
        point = self.nearest(decisions)
        return point if point.algorithm == decisions["algorithm"] else None

    def rule(self, point: Choice) -> str:
        """Return the name of the algorithm of a choice."""
        return point.algorithm

    def entry(self, point: Choice) -> Entry:
        """Return a choice in the form of a record."""
        payload = point.to_json()
        (kind,) = self.kinds
        return Entry(kind, payload, hashlib.sha256(f"{kind} {payload}".encode()).hexdigest())

    def read(self, entry: Entry, definition: str) -> Choice:
        """Return the choice (an algorithm with its parameters) that a record stores.

        Raises
        ------
        ToolchainError
            It is unknown to this version, illegal for this task, or winograd where that is excluded.
        """
        del definition  # a choice does not refer to names in the function for which it was measured
        choice = choice_from(entry.payload)
        if not self.legal(choice):
            raise ToolchainError(
                f"a record's choice does not compute this task: {entry.payload}",
                "tune the task again with --fresh",
            )
        return choice

    def candidate(self, point: Choice) -> Candidate:
        """Return a candidate with the function of a choice; its code is generated when it is compiled."""
        made = alone(self.task, replace(self.choices, decided={self.task.name: point}))
        code = code_of(made.recipe, self.target.target)
        return Candidate(self.entry(point), code, made.parameters, self.task.outputs, self.target.kind)
