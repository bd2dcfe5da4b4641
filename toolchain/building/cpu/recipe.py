"""What a function is made from: all that a generator sees, so that another process can make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm import tirx

from toolchain.building.cpu.choice import GENERAL, Choice
from toolchain.building.cpu.convert import copy_function
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.general import general
from toolchain.building.cpu.generators import GENERATORS
from toolchain.building.cpu.layout import Layout
from toolchain.building.cpu.read import Read
from toolchain.building.cpu.recurrent import recurrent
from toolchain.building.cpu.work import Work
from toolchain.models.recurrent.spec import Recurrence


class Recipe(Protocol):
    """Makes one function; its value is all that the function depends on, names apart."""

    @property
    def arity(self) -> int:
        """How many parameters the function has."""

    def function(self) -> tirx.PrimFunc:
        """Return the function, scheduled."""


@dataclass(frozen=True)
class Computed:
    """A function of the network in the layouts of its values; without `work` by the general rule."""

    read: Read
    layouts: tuple[Layout | None, ...]
    core: Core
    choice: Choice = GENERAL
    work: Work | None = None

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.layouts)

    def function(self) -> tirx.PrimFunc:
        """Return what the generator of the choice's algorithm makes."""
        if self.work is None:
            return general(self.read, self.layouts, self.core)
        generator = GENERATORS[self.choice.algorithm]
        return generator.function(self.read, self.work, self.choice, self.layouts, self.core)


@dataclass(frozen=True)
class Moved:
    """A value of a logical shape, brought from one layout to another; None: plain."""

    shape: tuple[int, ...]
    dtype: str
    source: Layout | None
    target: Layout | None
    core: Core
    arity = 2

    def function(self) -> tirx.PrimFunc:
        """Return the function that copies it."""
        return copy_function(self.shape, self.dtype, self.source, self.target, self.core)


@dataclass(frozen=True)
class Recurring:
    """A recurrence; its recurrent weight is packed where it is constant."""

    recurrence: Recurrence
    core: Core
    constant: bool
    arity: int

    def function(self) -> tirx.PrimFunc:
        """Return the function that goes through the steps."""
        return recurrent(self.recurrence, self.core, constant=self.constant)


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
