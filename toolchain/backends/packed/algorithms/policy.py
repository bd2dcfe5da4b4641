"""Chooses how a contraction is computed without a record, and lists what a tuner may measure."""

from __future__ import annotations

from typing import Any

from toolchain.backends.packed.algorithms.algorithm import Algorithm, Choice, Cost
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import ALGORITHMS, algorithm_of
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction


def default_choice(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
    """Return the choice that builds use without a record; `GENERAL` if no other algorithm applies."""
    best: Choice | None = None
    for algorithm in _applying(contraction, machine, use_winograd):
        choice = algorithm.default(contraction, machine)
        if choice is not None and (best is None or _beats(choice, best, contraction, machine)):
            best = choice
    return GENERAL if best is None else best


def candidates(contraction: Contraction, machine: Machine) -> list[Choice]:
    """Return the choices that a tuner may measure, the default first."""
    found = [default_choice(contraction, machine, True), default_choice(contraction, machine, False)]
    for algorithm in reversed(_applying(contraction, machine, use_winograd=True)):
        found += algorithm.candidates(contraction, machine)
    return list(dict.fromkeys(found))


def legal(choice: Choice, contraction: Contraction, machine: Machine) -> bool:
    """Return whether a choice computes a contraction."""
    algorithm = algorithm_of(choice)
    return _applies(algorithm, contraction, machine) and algorithm.legal(choice, contraction, machine)


def cost(choice: Choice, contraction: Contraction, machine: Machine) -> Cost | None:
    """Return the estimated cost of a choice; None if its algorithm has no cost model."""
    return algorithm_of(choice).cost(choice, contraction, machine)


def _applying(contraction: Contraction, machine: Machine, use_winograd: bool) -> list[Algorithm[Any, Any]]:
    return [
        each for each in ALGORITHMS if (use_winograd or each.exact) and _applies(each, contraction, machine)
    ]


def _applies(algorithm: Algorithm[Any, Any], contraction: Contraction, machine: Machine) -> bool:
    """Whether an algorithm computes a contraction by the machine's instruction for it."""
    plain = machine.products_of(contraction.dtype).plain
    return (plain or algorithm.any_products) and algorithm.applies(contraction, machine)


def _beats(choice: Choice, best: Choice, contraction: Contraction, machine: Machine) -> bool:
    mine, other = cost(choice, contraction, machine), cost(best, contraction, machine)
    return mine is not None and other is not None and mine.beats(other)
