"""What a function is made from: all that a generator sees, so that another process can make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm import tirx


class Recipe(Protocol):
    """Makes one function; its value is all that the function depends on, names apart."""

    @property
    def arity(self) -> int:
        """How many parameters the function has."""

    def function(self) -> tirx.PrimFunc:
        """Return the function, scheduled."""


@dataclass(frozen=True)
class Scheduled:
    """A function that is there already."""

    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return it."""
        return self.func
