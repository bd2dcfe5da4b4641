"""Tasks: the distinct functions of a network, which are tuned one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from toolchain.errors import UsageError

ID_LENGTH = 8


@dataclass(frozen=True)
class Task(ABC):
    """One distinct function of a network.

    Attributes
    ----------
    workload
        Hash of the definition, equal in every process; its first digits are the id that users see.
    name
        Name in the network of the first function with that hash.
    weight
        How many times the network calls it, in all of its shapes together.
    flops
        Floating-point operations of one call; a multiply-add counts as two.
    shapes
        Shapes of its operands, outputs last.
    calls
        How many times each shape of the network calls it, the largest shape first; empty: there is one shape.
    """

    workload: str
    name: str
    weight: int
    flops: int
    shapes: tuple[tuple[int, ...], ...]
    calls: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    @abstractmethod
    def definition(self) -> str:
        """The computation as text. The store keeps it, so that a record shows what was measured."""

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
    """Return the tasks whose workloads begin with one of `ids`; all tasks if `ids` is empty.

    Parameters
    ----------
    option
        The command-line option with the ids, for the error message.

    Raises
    ------
    UsageError
        An id is unknown, or fits several tasks.
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
