"""The steps of a planned network, and the layouts of its values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tvm import relax, tirx

from toolchain.backends.packed.algorithms.algorithm import Algorithm, Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.models.recurrent.recurrence import Recurrence


@dataclass(frozen=True)
class PlanStep:
    """A binding of the network whose Relax expression is not a call of a fused function."""

    var: relax.Var
    value: relax.Expr


@dataclass(frozen=True)
class Call(PlanStep):
    """The call of a fused function, which keeps its default schedule."""

    function: str

    @property
    def arguments(self) -> list[relax.Expr]:
        """The arguments of the call, without outputs."""
        return list(self.value.args[1].fields)


@dataclass(frozen=True)
class Generated(Call):
    """A call of a function whose code an algorithm of this backend generates.

    Attributes
    ----------
    choice
        The code variant: an algorithm with its parameters.
    contraction
        The function's contraction, if a code variant for contractions can compute it. None if there is no
        contraction, if its input or output cannot be packed in blocks of channels, or if the machine does not
        multiply values of these types.
    """

    read: Read
    choice: Choice = GENERAL
    contraction: Contraction | None = None

    @property
    def subject(self) -> Contraction | None:
        """The contraction that the code variant computes; None for the general algorithm."""
        return None if self.choice == GENERAL else self.contraction

    @property
    def algorithm(self) -> Algorithm[Any, Any]:
        """The algorithm that generates the function."""
        return algorithm_of(self.choice)

    def argument(self, buffer: tirx.Buffer) -> relax.Expr:
        """Return the argument for a parameter."""
        return self.arguments[self.read.parameter(buffer)]


@dataclass(frozen=True)
class Recurrent(Call):
    """The call of a recurrence."""

    recurrence: Recurrence


@dataclass
class Plan:
    """The steps in order, and the layouts of their values.

    Attributes
    ----------
    blocked
        Values that are read in blocks although they have fewer channels than a block.
    few
        Channels of a block of a value that has fewer than usual, but is read several channels at a time.
    concatenations
        Operands of a concatenated value, each with its first block.
    places
        For an operand that is computed in place: its concatenation, and its first block there.
    """

    machine: Machine
    steps: list[PlanStep] = field(default_factory=list)
    packed: set[relax.Var] = field(default_factory=set)
    halos: dict[relax.Var, tuple[int, ...]] = field(default_factory=dict)
    fills: dict[relax.Var, int] = field(default_factory=dict)
    blocked: set[relax.Var] = field(default_factory=set)
    few: dict[relax.Var, int] = field(default_factory=dict)
    concatenations: dict[relax.Var, list[tuple[relax.Var, int]]] = field(default_factory=dict)
    places: dict[relax.Var, tuple[relax.Var, int]] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """Number of channels in a block."""
        return self.machine.lanes

    def part(self, whole: relax.Var, offset: int) -> Layout:
        """Return the layout of an operand inside its concatenation."""
        layout = self.layout(whole)
        return replace(layout, offset=offset, whole=layout.blocks(extents(whole)[1]))

    def layout(self, value: relax.Var) -> Layout:
        """Return the packed layout of a value."""
        if value in self.places:
            return self.part(*self.places[value])
        shape = extents(value)
        blocks = value in self.packed or value in self.blocked or shape[1] >= self.lanes
        halo = self.halos.get(value, (0,) * (2 * (len(shape) - 2)))
        return Layout(self.lanes if blocks else self.few.get(value, 1), halo, fill=self.fills.get(value, 0))


def extents(value: relax.Expr) -> tuple[int, ...]:
    """Return the shape of a Relax value."""
    return tuple(int(extent) for extent in value.ty.shape)


def images(value: relax.Expr, machine: Machine) -> bool:
    """Return whether a value is a batch of images (rows, volumes) of a type that the machine multiplies."""
    if not isinstance(value, relax.Var) or not isinstance(value.ty, relax.TensorType):
        return False
    return len(value.ty.shape) in (3, 4, 5) and str(value.ty.dtype) in machine.packed


def packable(value: relax.Expr, machine: Machine) -> bool:
    """Return whether a value is a batch of images of more than one pixel, which may stay packed."""
    return images(value, machine) and prod(extents(value)[2:]) > 1
