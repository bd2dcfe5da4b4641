"""A kernel that is known to be good: what fails with it is the fault of host, board or what lies between."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.tasks.candidate import Candidate
from toolchain.tasks.reference import Reference
from toolchain.tasks.task import Task


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
