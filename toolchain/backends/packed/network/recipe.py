"""What generated functions are made from."""

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
    """A function of the network in the layouts of its values; without `subject` by the general rule."""

    read: Read
    layouts: tuple[Layout | None, ...]
    machine: Machine
    choice: Choice = GENERAL
    subject: Contraction | None = None

    @property
    def arity(self) -> int:
        """How many parameters the function has."""
        return len(self.layouts)

    def function(self) -> tirx.PrimFunc:
        """Return what the choice's algorithm makes."""
        algorithm = algorithm_of(self.choice)
        return algorithm.function(self.read, self.subject, self.choice, self.layouts, self.machine)


@dataclass(frozen=True)
class Moved:
    """A value of a logical shape, brought from one layout to another; None: plain."""

    shape: tuple[int, ...]
    dtype: str
    source: Layout | None
    target: Layout | None
    machine: Machine
    arity = 2

    def function(self) -> tirx.PrimFunc:
        """Return the function that copies it."""
        return copy_function(self.shape, self.dtype, self.source, self.target, self.machine)


@dataclass(frozen=True)
class Recurring:
    """A recurrence; its recurrent weight is packed where it is constant."""

    recurrence: Recurrence
    machine: Machine
    constant: bool
    arity: int

    def function(self) -> tirx.PrimFunc:
        """Return the function that goes through the steps."""
        return recurrent(self.recurrence, self.machine, constant=self.constant)
