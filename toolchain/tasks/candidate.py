"""A point of a task with everything needed to compile and measure it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolchain.devices.kernel import Kernel
from toolchain.tasks.parameter import Parameter


@dataclass(frozen=True)
class Entry:
    """A point of a space in the form that the store of records keeps.

    Attributes
    ----------
    kind
        Format of the payload; each backend has its own kinds.
    payload
        The complete point as text.
    digest
        Identifies the point among all points of its task.
    """

    kind: str
    payload: str
    digest: str


class CandidateCode(Protocol):
    """Code that can be compiled. It is sent to other processes, so it must be picklable."""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Compile the code; return the contents of object files, in the order to link them.

        Parameters
        ----------
        symbol
            Name of the function in the library, unique among the candidates that share it.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@runtime_checkable
class DeviceCode(CandidateCode, Protocol):
    """Code that runs partly on a device. A library embeds all its functions' device code as one piece."""

    def linkable(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        """Merge compiled functions; return the contents of object files, in the order to link them.

        Parameters
        ----------
        parts
            The results of `objects` for all functions of the library, all for the same target.
        """

    def launches(self) -> list[Kernel]:
        """Compile the code and return the kernels that it launches, sorted by name.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@dataclass(frozen=True)
class Candidate:
    """A function to compile and measure, and its parameters.

    Attributes
    ----------
    entry
        The point in the form that a record keeps.
    parameters
        Parameters of the function, which writes the last `outputs` of them.
    memory
        Kind of the device whose memory holds the arguments; `cpu`: host memory, even if a device computes.
    """

    entry: Entry
    code: CandidateCode
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str = "cpu"
