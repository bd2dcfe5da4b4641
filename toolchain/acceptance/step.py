"""A step of an acceptance, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.document import Result
from toolchain.acceptance.found import Found


@dataclass(frozen=True)
class StepEnd:
    """How a step ended.

    Attributes
    ----------
    reason
        Text that is published: composed of numbers and words from known sets.
    wrong
        Whether it failed because numbers are wrong.
    """

    result: Result
    reason: str = ""
    found: Found | None = None
    wrong: bool = False


@dataclass(frozen=True)
class AcceptStep:
    """A step that is planned.

    Attributes
    ----------
    name
        Its kind, with the device and the network if it has them: `verify:cpu:mobilenet`.
    summary
        Description for users.
    run
        Does the step.
    always
        Whether it begins even if no time is left.
    work
        Amount of work, comparable among steps of the same `pace`; 0 if unknown.
    """

    name: str
    summary: str
    run: Callable[[AcceptContext], StepEnd]
    always: bool = False
    work: float = 0.0

    @property
    def pace(self) -> str:
        """Kind of step whose duration follows from the work: the name without the network."""
        return ":".join(self.name.split(":")[:2])

    def named_by(self, text: str) -> bool:
        """Whether a user's word names this step or its beginning: `verify`, `verify:opencl`."""
        return self.name == text or self.name.startswith(f"{text}:")
