"""How each contraction of a network is computed: by a given choice, else by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tvm import tirx

from toolchain.backends.packed.algorithms.algorithm import Choice
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
        Whether convolutions may use winograd.
    decided
        Choices by name of the fused function; for a function with several contractions, of its first.
    unread
        Returns a schedule of a function that the generators cannot read.
    """

    machine: Machine
    winograd: bool = True
    decided: Mapping[str, Choice] = field(default_factory=dict)
    unread: Callable[[tirx.PrimFunc], tirx.PrimFunc] = default_schedule

    def of(self, name: str | None, contraction: Contraction) -> Choice:
        """Return how a function's contraction is computed; `GENERAL` by the general algorithm.

        Parameters
        ----------
        name
            Name of the fused function; None for a part that was split from a function, which has no choice.
        """
        choice = self.decided.get(name) if name is not None else None
        if choice is not None and self.permits(choice, contraction):
            return choice
        return default_choice(contraction, self.machine, self.winograd)

    def improves(self, name: str | None, choice: Choice, contraction: Contraction) -> bool:
        """Return whether a function's choice was decided for it and is not the default."""
        decided = name is not None and self.decided.get(name) == choice
        return decided and choice != default_choice(contraction, self.machine, self.winograd)

    def permits(self, choice: Choice, contraction: Contraction) -> bool:
        """Return whether a choice computes a contraction and is allowed."""
        return legal(choice, contraction, self.machine) and (self.winograd or algorithm_of(choice).exact)
