"""What a session with a board has of the file that it was sent, and how it is run there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from toolchain.tasks.candidate import Code

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Often:
    """How often something is run to be timed; see `TuneOptions`."""

    number: int
    repeat: int
    min_repeat_ms: int


@dataclass(frozen=True)
class Times:
    """Milliseconds of one call, by the board's clock, one for each repeat; or of a model of the device."""

    ms: tuple[float, ...]
    modelled: bool = False


class Opened(Protocol):
    """A file, loaded in a session. Whatever goes wrong there is raised as TVM raises it."""

    def run(self, function: str, tensors: Sequence[tvm.runtime.Tensor]) -> None:
        """Compute once."""

    def time(self, function: str, tensors: Sequence[tvm.runtime.Tensor], memory: str, often: Often) -> Times:
        """Compute often.

        Parameters
        ----------
        memory
            Kind of the device in whose memory the tensors lie.

        Raises
        ------
        CheckError
            The board says what cannot be right.
        """


@runtime_checkable
class FileCode(Code, Protocol):
    """Code that no linker knows: a board is sent what `objects` returns, one file for each candidate."""

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> Opened:
        """Load a file that the session has.

        Parameters
        ----------
        board
            Its name, for errors.
        """
