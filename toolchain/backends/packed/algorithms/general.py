"""The algorithm `general`, for every function that no other algorithm computes; see `stages.stagewise`."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm, Choice
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.stages.stagewise import stagewise


@dataclass(frozen=True)
class GeneralChoice(Choice):
    """The choice of `general`, which has no parameters."""

    algorithm = "general"


GENERAL = GeneralChoice()


class General(Algorithm[Contraction, GeneralChoice]):
    """Loops over the stages of a function, with or without a contraction."""

    choice = GeneralChoice
    values = "either"

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return True."""
        del contraction, machine
        return True

    def default(self, contraction: Contraction, machine: Machine) -> GeneralChoice:
        """Return the only choice."""
        del contraction, machine
        return GENERAL

    def candidates(self, contraction: Contraction, machine: Machine) -> list[GeneralChoice]:
        """Return no choices: no other algorithm applies, so there is nothing to measure."""
        del contraction, machine
        return []

    def legal(self, choice: GeneralChoice, contraction: Contraction, machine: Machine) -> bool:
        """Return True."""
        del choice, contraction, machine
        return True

    def weight(
        self,
        value: Array,
        contraction: Contraction,
        choice: GeneralChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight as it is."""
        del contraction, choice, machine, input_lanes
        return value

    def function(
        self,
        read: Read,
        contraction: Contraction | None,
        choice: GeneralChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the function's loops.

        Raises
        ------
        UnreadableError
            It has a stage that the rule does not know.
        """
        del contraction, choice
        return stagewise(read, layouts, machine)
