"""The expected outputs of a task, computed from its definition; candidates are compared with them."""

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


class TaskReference(Protocol):
    """Computes a task from its definition, without the schedules and generators of candidates.

    It is sent to another process, so it must be picklable.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The inputs of the task, in the order of its candidates' parameters; constants have their values."""

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compute the outputs for several draws of inputs, all in the network's shapes.

        Raises
        ------
        ToolchainError
            The definition cannot be computed on this host.
        """


@dataclass(frozen=True)
class Case:
    """Inputs for a candidate, and the outputs that it must compute from them.

    Attributes
    ----------
    inputs
        `.npz` file of the inputs, each named by its index among the parameters; without the constants.
    outputs
        `.npz` file of the expected outputs, in their order. It does not exist until they are known.
    """

    inputs: Path
    outputs: Path

    def arguments(self) -> dict[int, Array]:
        """Read the inputs, in the network's shapes, by their index among the parameters."""
        return {int(name): value for name, value in _read(self.inputs).items()}

    def expected(self) -> list[Array] | None:
        """Read the expected outputs, in the network's shapes; None if they are not known yet."""
        return list(_read(self.outputs).values()) if self.outputs.exists() else None

    def expect(self, outputs: Sequence[Array]) -> None:
        """Write the expected outputs to their file."""
        _write(self.outputs, {str(place): value for place, value in enumerate(outputs)})


def write_case(folder: Path, name: str, arguments: dict[int, Array]) -> Case:
    """Write the inputs of a new case into a folder; its outputs are not known yet."""
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
    """The task of a probe; it is not part of a network."""

    @property
    def definition(self) -> str:
        """Name of the function that it computes."""
        return self.name


@dataclass(frozen=True)
class Probe:
    """A known-good function, built like any candidate, and the reference it is compared with."""

    task: Known
    candidate: Candidate
    reference: TaskReference
