"""Turns the decisions of a point into features for a cost model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from math import log2
from typing import Any, Generic, TypeGuard

from toolchain.tasks.finite import FiniteSpace
from toolchain.tasks.space import P

_PAIRED = 12  # number of positive decisions that are multiplied in pairs: 66 products


class KnobFeatures(Generic[P]):
    """The decisions of a point as features.

    A number is one feature, a tuple of numbers one for each element, anything else is one-hot encoded. The
    logarithms of the products of two positive numbers are features, too: products of tile sizes decide
    whether data fit a buffer, and the model's trees are too shallow to learn products.

    Attributes
    ----------
    are_numbers
        Whether all decisions are numbers: then each has the same meaning whatever the others are.
    """

    def __init__(self, space: FiniteSpace[P]) -> None:
        self._space = space
        positive = [name for name, domain in space.domains.items() if _positive(domain)]
        self._pairs = list(combinations(positive[:_PAIRED], 2))
        self.are_numbers = all(map(_numeric, space.domains.values()))

    def features(self, point: P) -> list[float]:
        """Return the features of a point, equally many for each point of the space."""
        decisions = self._space.decisions(point)
        numbers = [
            number
            for name, domain in self._space.domains.items()
            for number in _numbers(decisions[name], domain)
        ]
        products: list[Any] = [(decisions[one], decisions[other]) for one, other in self._pairs]
        return [*numbers, *(log2(one) + log2(other) for one, other in products)]

    def promising(self, point: P) -> list[float]:
        """Return the features and, last, log2(1 + index) of the point: the first points promise most."""
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
