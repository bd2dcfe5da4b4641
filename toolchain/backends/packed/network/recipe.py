"""Recipes: the data from which functions are generated."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.stages.convert import copy_function
from toolchain.backends.packed.stages.recurrent import recurrent
from toolchain.models.recurrent.spec import Recurrence


@dataclass(frozen=True)
class Computed:
    """A function of the network with the layouts of its values; without `subject` it is general."""

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
        """Return the function that the choice's algorithm generates."""
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
