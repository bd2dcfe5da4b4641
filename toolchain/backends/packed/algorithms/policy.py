"""Which choice a function gets without a record and by one, and which a tuner may measure."""

from __future__ import annotations

from toolchain.backends.packed.algorithms.choice import GENERAL, Choice, choice_from
from toolchain.backends.packed.algorithms.cost import cost
from toolchain.backends.packed.algorithms.dense import space as dense_tile
from toolchain.backends.packed.algorithms.direct import space as tile
from toolchain.backends.packed.algorithms.interleaved import space as interleaved_tile
from toolchain.backends.packed.algorithms.winograd import space as winograd_tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.transposed import Transposed
from toolchain.backends.packed.recognise.work import Work
from toolchain.errors import ToolchainError


def default_choice(work: Work, machine: Machine, use_winograd: bool) -> Choice | None:
    """Return how a contraction is computed; None: by the general rule."""
    if isinstance(work, Matmul):
        return dense_tile.dense_tile(work, machine)
    if isinstance(work, Transposed):
        return interleaved_tile.interleaved_tile(work, machine)
    return _convolution(work, machine, use_winograd)


def _convolution(conv: Convolution, machine: Machine, use_winograd: bool) -> Choice | None:
    if conv.depthwise:
        return tile.depthwise_tile(conv, machine)
    direct = tile.direct_tile(conv, machine)
    if conv.groups != 1:
        return direct
    fast = winograd_tile.winograd_tile(conv, machine) if use_winograd else None
    if fast is not None and cost(fast, conv, machine).beats(cost(direct, conv, machine)):
        return fast
    return direct


def recorded_choice(payload: str, work: Work, machine: Machine, use_winograd: bool) -> Choice | None:
    """Return the choice that a record holds; None: the general rule.

    Raises
    ------
    ToolchainError
        It is none of this version, none for this contraction, or winograd where that is not wanted.
    """
    choice = choice_from(payload)
    if choice == GENERAL:
        return None
    if not legal(choice, work, machine) or (choice.algorithm == "winograd" and not use_winograd):
        raise ToolchainError(
            f"a record's choice is none for this task: {payload}", "tune the task again with --fresh"
        )
    return choice


def candidates(work: Work, machine: Machine) -> list[Choice]:
    """Return the choices that a tuner may measure, the default first."""
    if isinstance(work, Matmul):
        return dense_tile.candidates(work, machine)
    if isinstance(work, Transposed):
        return interleaved_tile.candidates(work, machine)
    found = [default_choice(work, machine, True), default_choice(work, machine, False)]
    found += [*winograd_tile.candidates(work, machine), *tile.candidates(work, machine)]
    return list(dict.fromkeys(choice for choice in found if choice is not None))


def legal(choice: Choice, work: Work, machine: Machine) -> bool:
    """Whether a choice computes a contraction."""
    if isinstance(work, Matmul):
        return dense_tile.legal(choice, work, machine)
    if isinstance(work, Transposed):
        return interleaved_tile.legal(choice, work, machine)
    return winograd_tile.legal(choice, work, machine) or tile.legal(choice, work, machine)
