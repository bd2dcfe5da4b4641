"""What there is to compute, and to tune: the distinct parts of a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolchain.errors import UsageError

ID_LENGTH = 8


@dataclass(frozen=True)
class Task(ABC):
    """One distinct part of a network.

    Attributes
    ----------
    workload
        Hash of the definition, the same in every process; the first digits are the id that users see.
    name
        Of the first part with that hash, as the network calls it.
    weight
        How often the network computes it.
    flops
        Floating-point operations of one call, a multiply and an add counted as two.
    shapes
        Of its operands, outputs last.
    """

    workload: str
    name: str
    weight: int
    flops: int
    shapes: tuple[tuple[int, ...], ...]

    @property
    @abstractmethod
    def definition(self) -> str:
        """What it computes, as text, for the store of records: what was measured can be found again by it."""

    @property
    def id(self) -> str:
        """The first digits of the workload's hash."""
        return self.workload[:ID_LENGTH]

    def to_json(self) -> dict[str, object]:
        """Return the task as `toolchain tasks --json` prints it."""
        return {
            "id": self.id,
            "name": self.name,
            "weight": self.weight,
            "flops": self.flops,
            "shapes": [list(shape) for shape in self.shapes],
        }


AnyTask = TypeVar("AnyTask", bound=Task)


def tasks_named(tasks: Sequence[AnyTask], ids: Sequence[str], option: str) -> list[AnyTask]:
    """Return the tasks whose ids begin with one of `ids`; all for none.

    Parameters
    ----------
    option
        Where the ids were typed, for the error.

    Raises
    ------
    UsageError
        One is unknown, or means several tasks.
    """
    if not ids:
        return list(tasks)
    wanted = set()
    for given in ids:
        found = [task for task in tasks if task.workload.startswith(given)]
        if len(found) != 1:
            listed = ", ".join(f"{task.id} ({task.name})" for task in found or tasks)
            problem = "means several tasks" if found else "is no task of this network"
            raise UsageError(f"{option} {given}: {problem}: {listed}", "`toolchain tasks` lists them")
        wanted.add(found[0].workload)
    return [task for task in tasks if task.workload in wanted]
