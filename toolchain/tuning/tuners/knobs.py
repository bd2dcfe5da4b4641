"""Decisions as numbers, for models that know nothing else of a point."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from math import log2
from typing import Any, Generic, TypeGuard

from toolchain.tasks.finite import FiniteSpace
from toolchain.tasks.space import P

_PAIRED = 12  # positive numbers of a space that are paired: 66 products


class Knobs(Generic[P]):
    """Decisions as features: a number is itself, a tuple of numbers as many, of all else each has a place.

    Products of two positive numbers (their logarithms) come on top: a buffer is filled by products of tile
    sizes, and trees as shallow as the model's do not multiply.

    Attributes
    ----------
    are_numbers
        Whether all decisions are: then one means the same whatever the others are.
    """

    def __init__(self, space: FiniteSpace[P]) -> None:
        self._space = space
        positive = [name for name, domain in space.domains.items() if _positive(domain)]
        self._pairs = list(combinations(positive[:_PAIRED], 2))
        self.are_numbers = all(map(_numeric, space.domains.values()))

    def features(self, point: P) -> list[float]:
        """Return a point's decisions as numbers, as many for each point of the space."""
        decisions = self._space.decisions(point)
        numbers = [
            number
            for name, domain in self._space.domains.items()
            for number in _numbers(decisions[name], domain)
        ]
        products: list[Any] = [(decisions[one], decisions[other]) for one, other in self._pairs]
        return [*numbers, *(log2(one) + log2(other) for one, other in products)]

    def promising(self, point: P) -> list[float]:
        """Return the features and, last, the logarithm of the point's place: the first promise most."""
        return [*self.features(point), log2(1 + self._space.index(point))]


def _numeric(domain: Sequence[Hashable]) -> TypeGuard[Sequence[float]]:
    return all(isinstance(other, int | float) and not isinstance(other, bool) for other in domain)


def _positive(domain: Sequence[Hashable]) -> bool:
    return _numeric(domain) and len(domain) > 1 and min(domain) > 0


def _numbers(decision: Hashable, domain: Sequence[Hashable]) -> list[float]:
    if isinstance(decision, int | float) and all(isinstance(other, int | float) for other in domain):
        return [float(decision)]
    tuples = [other for other in domain if isinstance(other, tuple)]
    if isinstance(decision, tuple) and len(tuples) == len(domain) and all(map(_of_numbers, tuples)):
        longest = max(map(len, tuples))
        return [*map(float, decision), *[0.0] * (longest - len(decision))]
    return [float(decision == other) for other in domain]


def _of_numbers(decision: tuple[Hashable, ...]) -> bool:
    return all(isinstance(each, int | float) for each in decision)
