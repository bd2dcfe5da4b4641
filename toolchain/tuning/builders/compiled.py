"""One candidate's code, compiled; runs in other processes, on other hosts too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolchain.devices.failure import Failure
from toolchain.errors import ToolchainError
from toolchain.tasks.candidate import CandidateCode

# A function compiles in 0.1 to 3 s, unrolled ones take LLVM longer on a busy machine; the first of a process
# waits for TVM, 2 s.
COMPILE_S = 60.0


@dataclass(frozen=True)
class Compiled:
    """The contents of object files, in the order to link them, or why there are none."""

    objects: tuple[bytes, ...] = ()
    failure: Failure | None = None
    message: str = ""


class Compilers(Protocol):
    """Processes that compile, here or elsewhere.

    Attributes
    ----------
    lanes
        How many there are: so many functions are compiled at a time.
    """

    lanes: int

    def compile(self, codes: Sequence[tuple[CandidateCode, str]]) -> list[Compiled]:
        """Compile functions, each with its symbol; return them in their order.

        One that fails, hangs or ends its process costs the others nothing.

        Raises
        ------
        ToolchainError
            Nothing is there any longer that compiles.
        """

    def close(self) -> None:
        """End what was started; whoever waits in `compile` is sent away."""


def compile_code(code: CandidateCode, symbol: str) -> Compiled:
    """Compile one function."""
    try:
        return Compiled(code.objects(symbol))
    except ToolchainError as error:
        return Compiled(failure="build", message=error.message)
