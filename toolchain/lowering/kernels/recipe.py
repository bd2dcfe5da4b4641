"""Recipes, which contain everything a function is made from, so that another process can make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm import tirx


class Recipe(Protocol):
    """Makes one function; contains everything that the function depends on, except names."""

    @property
    def arity(self) -> int:
        """Number of the function's parameters."""

    def function(self) -> tirx.PrimFunc:
        """Make the scheduled function."""


@dataclass(frozen=True)
class Scheduled:
    """The recipe of a function that is already made."""

    func: tirx.PrimFunc

    @property
    def arity(self) -> int:
        """Number of the function's parameters."""
        return len(self.func.params)

    def function(self) -> tirx.PrimFunc:
        """Return `func` as it is: it is scheduled already."""
        return self.func
