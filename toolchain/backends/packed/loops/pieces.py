"""How the independent pieces of a function run: the one thing in which kinds of machines differ most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from tvm.tirx.script.builder import ir

from toolchain.backends.packed.recognise.read import Var


class Pieces(Protocol):
    """What runs the pieces.

    Attributes
    ----------
    scope
        TVM's memory scope of what one piece keeps: sums, inputs of a tile, rows.
    """

    @property
    def scope(self) -> str: ...

    def over(self, count: int, *, small: bool) -> AbstractContextManager[Var]:
        """Emit what runs `count` pieces around what follows; yields the number of a piece.

        Parameters
        ----------
        small
            All of them are less work than it takes to wake other cores.
        """


@dataclass(frozen=True)
class ParallelLoop:
    """The turns of a parallel loop, on the cores of a CPU; LLVM takes what a piece keeps into registers."""

    scope: str = "global"

    @contextmanager
    def over(self, count: int, *, small: bool) -> Iterator[Var]:
        """Emit the loop."""
        with (ir.serial if small else ir.parallel)(0, count) as piece:
            yield piece
