"""The space of one task: all choices (algorithms with their parameters) that can compute it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property, lru_cache
from math import log2, prod

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.policy import candidates, cost
from toolchain.backends.packed.algorithms.table import ALGORITHMS, choice_from
from toolchain.backends.packed.kinds import KINDS, TFLOAT32_KINDS, allowed, excluded, usable
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.alone import alone, contraction
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.recognise.contraction import Contraction, Matmul, recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.definition import function_of
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.lowering.kernels.code import code_of
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.tuner import Decisions, FiniteSpace

# Features of a choice for a cost model: of the choice, of the task, and of both together.

_NUMBERS = ("blocks", "columns", "rows", "depth", "flat")


def features(choice: Choice, contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return the features of a choice, the same number for all choices, contractions and machines."""
    knobs = choice.knobs
    algorithm = [float(choice.algorithm == each.name) for each in ALGORITHMS]
    tile = [*knobs["tile"], 0, 0, 0][:3]
    own = [*(knobs[name] for name in _NUMBERS), *tile, knobs["order"] == "channels"]
    own += [*[*choice.group, 0, 0, 0][:3], choice.loads == "weights"]
    together = _together(choice, contraction, machine)
    return [*algorithm, *map(float, own), *together, *_task(contraction, machine)]


@lru_cache(maxsize=1024)
def contraction_of(definition: str) -> Contraction | None:
    """Return the contraction in a function, given by its definition; None if it has none."""
    return recognise(read(function_of(definition)))


def _task(contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return the features of the task, sizes as logarithms, and of the machine."""
    host = [float(machine.lanes), float(machine.registers), log2(machine.cache), float(machine.threads)]
    if contraction is None:
        return [0.0] * 10 + host
    if isinstance(contraction, Matmul):
        batch, rows = contraction.batch.extent, contraction.rows.extent
        counts = [1, batch, contraction.inner.extent, contraction.columns.extent, rows, 1, 1, 1, rows, 1]
    else:
        counts = [
            2,
            contraction.batch,
            contraction.ci,
            contraction.co,
            prod(contraction.out),
            prod(contraction.kernel),
            prod(contraction.stride),
            contraction.groups,
            contraction.out[-1],
            contraction.dilation[-1],
        ]
    return [*(log2(max(1, count)) for count in counts), *host]


def _together(choice: Choice, contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return how a choice fits the task: sums in registers, rests of tiles, pieces, relative estimate."""
    knobs = choice.knobs
    sums = knobs["blocks"] * knobs["columns"]
    if contraction is None or isinstance(contraction, Matmul):
        return [float(sums), 0.0, 0.0, 0.0, 0.0]
    width = prod(contraction.out) if knobs["flat"] else contraction.out[-1]
    tiles = -(-width // max(1, knobs["columns"]))
    blocks = -(-contraction.co // (machine.lanes * max(1, knobs["blocks"])))
    pieces = blocks * -(-prod(contraction.out[:-1]) // max(1, knobs["rows"]))
    estimate = cost(choice, contraction, machine)
    work = 2.0 * contraction.batch * prod(contraction.out) * contraction.co * contraction.ci
    work *= prod(contraction.kernel) / contraction.groups / machine.flops(contraction.dtype)
    relative = 0.0 if estimate is None else log2(estimate.seconds * machine.threads / work)
    return [float(sums), width / (tiles * max(1, knobs["columns"])), float(tiles), log2(pieces), relative]


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
