"""How the contractions of a network are computed: by decision where there is one, else by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tvm import tirx

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.policy import default_choice, legal
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.lowering.schedules.rows import default_schedule


@dataclass(frozen=True)
class Choices:
    """How each fused function is computed.

    Attributes
    ----------
    winograd
        Whether convolutions may be computed by winograd.
    decided
        Fused function's name -> how its contraction is computed. Of a function with several, the first.
    unread
        Schedules a function that the generators do not know.
    """

    machine: Machine
    winograd: bool = True
    decided: Mapping[str, Choice] = field(default_factory=dict)
    unread: Callable[[tirx.PrimFunc], tirx.PrimFunc] = default_schedule

    def of(self, name: str | None, contraction: Contraction) -> Choice:
        """Return how a function's contraction is computed; `GENERAL`: by the general rule.

        Parameters
        ----------
        name
            None: of what was cut from a function, which nothing is decided for.
        """
        choice = self.decided.get(name) if name is not None else None
        if choice is not None and self.permits(choice, contraction):
            return choice
        return default_choice(contraction, self.machine, self.winograd)

    def permits(self, choice: Choice, contraction: Contraction) -> bool:
        """Whether a choice computes a contraction, and may be taken."""
        return legal(choice, contraction, self.machine) and (self.winograd or algorithm_of(choice).exact)
