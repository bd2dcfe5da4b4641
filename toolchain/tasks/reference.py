"""What a task computes, by its definition alone: what every candidate is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from toolchain.arrays import Array
from toolchain.files import atomic
from toolchain.tasks.candidate import Candidate
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.task import Task


class Reference(Protocol):
    """Computes a task without the schedules and generators that candidates are made by.

    It is handed to another process: it can be pickled.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the task takes, in the order of its candidates' parameters; a constant has its value."""

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the outputs for several draws of what the task takes, all in the network's shapes.

        Raises
        ------
        ToolchainError
            The definition cannot be computed on this host.
        """


@dataclass(frozen=True)
class Case:
    """Numbers that a candidate is run with, and what must come of them.

    Attributes
    ----------
    inputs
        `.npz` of what the task takes, by the place among its parameters; constants are left out.
    outputs
        `.npz` of the outputs, in their order. Where there is none, nothing is known of them yet.
    """

    inputs: Path
    outputs: Path

    def arguments(self) -> dict[int, Array]:
        """Return what the task takes, in the network's shapes, by its place."""
        return {int(name): value for name, value in _read(self.inputs).items()}

    def expected(self) -> list[Array] | None:
        """Return the outputs, in the network's shapes; None where they are not known."""
        return list(_read(self.outputs).values()) if self.outputs.exists() else None

    def expect(self, outputs: Sequence[Array]) -> None:
        """Write down what must come of the inputs."""
        _write(self.outputs, {str(place): value for place, value in enumerate(outputs)})


def write_case(folder: Path, name: str, arguments: dict[int, Array]) -> Case:
    """Return a new case in a folder, its outputs not known."""
    case = Case(folder / f"{name}-inputs.npz", folder / f"{name}-outputs.npz")
    _write(case.inputs, {str(place): value for place, value in arguments.items()})
    return case


def _read(path: Path) -> dict[str, Array]:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def _write(path: Path, arrays: dict[str, Array]) -> None:
    with atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Known(Task):
    """What such a kernel computes; no part of a network."""

    @property
    def definition(self) -> str:
        """What it computes, in a word."""
        return self.name


@dataclass(frozen=True)
class Probe:
    """The kernel, built as any candidate is, and what must come of it."""

    task: Known
    candidate: Candidate
    reference: Reference
