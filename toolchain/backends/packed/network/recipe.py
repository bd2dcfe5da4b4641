"""Recipes: the data from which functions are generated."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.stages.convert import copy_function
from toolchain.backends.packed.stages.recurrent import recurrent
from toolchain.models.recurrent.recurrence import Recurrence


@dataclass(frozen=True)
class Computed:
    """The recipe of a function that one of this backend's algorithms generates.

    Attributes
    ----------
    layouts
        Layouts of the parameters; None is the plain layout.
    choice
        The code variant: an algorithm with its parameters.
    subject
        The contraction that the algorithm computes; None for the general algorithm.
    """

    read: Read
    layouts: tuple[Layout | None, ...]
    machine: Machine
    choice: Choice = GENERAL
    subject: Contraction | None = None

    @property
    def arity(self) -> int:
        """Number of parameters of the function."""
        return len(self.layouts)

    def function(self) -> tirx.PrimFunc:
        """Generate the function with the algorithm and the parameters of the code variant (`choice`)."""
        algorithm = algorithm_of(self.choice)
        return algorithm.function(self.read, self.subject, self.choice, self.layouts, self.machine)


@dataclass(frozen=True)
class Moved:
    """A copy of a value of logical `shape` from one layout to another; None is the plain layout."""

    shape: tuple[int, ...]
    dtype: str
    source: Layout | None
    target: Layout | None
    machine: Machine
    arity = 2

    def function(self) -> tirx.PrimFunc:
        """Return the function that copies the value."""
        return copy_function(self.shape, self.dtype, self.source, self.target, self.machine)


@dataclass(frozen=True)
class Recurring:
    """A recurrence; its recurrent weight is packed if it is constant."""

    recurrence: Recurrence
    machine: Machine
    constant: bool
    arity: int

    def function(self) -> tirx.PrimFunc:
        """Return the function that computes all steps."""
        return recurrent(self.recurrence, self.machine, constant=self.constant)
