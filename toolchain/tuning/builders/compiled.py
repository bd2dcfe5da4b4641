"""Compiles the code of one candidate; runs in other processes, also on other hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolchain.devices.kind import Failure
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import CandidateCode

# A function compiles in 0.1 to 3 s; unrolled ones take longer on a busy machine. Importing TVM takes 2 s in
# each new process.
COMPILE_S = 60.0


@dataclass(frozen=True)
class CompiledCandidate:
    """A compiled candidate: contents of its object files in link order, or the failure."""

    objects: tuple[bytes, ...] = ()
    failure: Failure | None = None
    message: str = ""


class Compilers(Protocol):
    """Processes that compile, on this host or on a fleet.

    Attributes
    ----------
    lanes
        Number of functions that they compile at the same time.
    """

    lanes: int

    def compile(self, codes: Sequence[tuple[CandidateCode, str]]) -> list[CompiledCandidate]:
        """Compile functions, each given with its symbol; return them in the same order.

        One that fails, hangs or ends its process does not affect the others.

        Raises
        ------
        ToolchainError
            The fleet is gone.
        """

    def close(self) -> None:
        """End the processes that compile candidates; threads that wait in `compile` return or raise."""


def compile_code(code: CandidateCode, symbol: str) -> CompiledCandidate:
    """Compile one function; an error of the compiler becomes the result's failure."""
    try:
        return CompiledCandidate(code.objects(symbol))
    except ToolchainError as error:
        return CompiledCandidate(failure="build", message=error.message)
