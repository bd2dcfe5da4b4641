"""How an uploaded candidate is loaded, run and timed in an RPC session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from toolchain.tasks.candidate import CandidateCode

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Often:
    """How many times a candidate is run to time it; `TuneOptions` explains the fields."""

    number: int
    repeat: int
    min_repeat_ms: int


@dataclass(frozen=True)
class Times:
    """Milliseconds of one call, one value for each repeat, by the board's clock or a model of the device."""

    ms: tuple[float, ...]
    modelled: bool = False


class Opened(Protocol):
    """A file loaded in a session. Errors of the session are raised as TVM raises them."""

    def run(self, function: str, tensors: Sequence[tvm.runtime.Tensor]) -> None:
        """Call a function once."""

    def time(self, function: str, tensors: Sequence[tvm.runtime.Tensor], memory: str, often: Often) -> Times:
        """Call a function repeatedly and return its times.

        Parameters
        ----------
        memory
            Kind of the device whose memory holds the tensors.

        Raises
        ------
        CheckError
            The board's answer cannot be true.
        """


@runtime_checkable
class FileCode(CandidateCode, Protocol):
    """Code that is not linked: the board gets the result of `objects`, one file for each candidate."""

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> Opened:
        """Load a file that was uploaded to the session.

        Parameters
        ----------
        board
            Name of the board, for error messages.
        """
