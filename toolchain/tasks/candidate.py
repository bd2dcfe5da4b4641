"""One way to compute a task, ready to be compiled and measured by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from toolchain.devices.kernel import Kernel
from toolchain.tasks.parameter import Parameter


@dataclass(frozen=True)
class Entry:
    """A point of a space as the store of records keeps it.

    Attributes
    ----------
    kind
        What the payload is: each backend has kinds of its own.
    payload
        All that the point is, as text.
    digest
        The same for the same point, another one for any other of its task.
    """

    kind: str
    payload: str
    digest: str


class Code(Protocol):
    """Code that is still to be compiled. It is handed to other processes: it can be pickled."""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Compile it; return the contents of object files, in the order to link them.

        Parameters
        ----------
        symbol
            What the function is called in the library: candidates that share one need names of their own.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@runtime_checkable
class DeviceCode(Code, Protocol):
    """Code of which a device runs a part. A library embeds that of all its functions in one piece."""

    def linkable(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        """Return the contents of object files, in the order to link them to one library.

        Parameters
        ----------
        parts
            What `objects` returned for each of the library's functions, all for the same target.
        """

    def launches(self) -> list[Kernel]:
        """Return the kernels that it begins, in the order of their names.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@dataclass(frozen=True)
class Candidate:
    """A function, and what it is called with.

    Attributes
    ----------
    entry
        As a record keeps it.
    parameters
        The last `outputs` of them are written by the function.
    memory
        Kind of the device in whose memory they lie; `cpu`: the host's, whatever computes.
    """

    entry: Entry
    code: Code
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str = "cpu"
