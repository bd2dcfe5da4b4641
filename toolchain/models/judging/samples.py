"""Inputs to try a network with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from toolchain.errors import UsageError
from toolchain.models.spec import TensorSpec

Inputs = dict[str, np.ndarray]
T = TypeVar("T")


class UnusableSampleError(UsageError):
    """The network computes nothing with these inputs that can be compared; others may do.

    Parameters
    ----------
    reason
        Why, in a clause.
    """

    def __init__(self, message: str, hint: str, reason: str) -> None:
        super().__init__(message, hint)
        self.reason = reason


FLOATS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal floats": lambda generator, shape: generator.standard_normal(shape, dtype=np.float32),
    # Of a logarithm, a root, an arc sine; of what is defined from 1 on.
    "floats between 0 and 1": lambda generator, shape: generator.random(shape, dtype=np.float32),
    "floats between 1 and 2": lambda generator, shape: 1 + generator.random(shape, dtype=np.float32),
}
"""Ways to draw floats, in the order in which they are tried; each evenly but for the first."""


@dataclass(frozen=True)
class Sort:
    """How the values of seeded inputs are drawn.

    Attributes
    ----------
    low, high
        The range of integers; `high` is not in it. Booleans are 0 and 1 of these.
    floats
        What floats are, in words: one of `FLOATS`.
    """

    low: int = 0
    high: int = 4
    floats: str = "normal floats"

    def shown(self, specs: Sequence[TensorSpec]) -> str:
        """Say it of these inputs, such as `normal floats, integers 0 and 1`."""
        kinds = {np.dtype(spec.dtype).kind for spec in specs}
        said = []
        if "f" in kinds:
            said.append(self.floats)
        if integers := kinds & set("iub"):
            most = min(self.high - 1, 1) if integers == {"b"} else self.high - 1
            values = {0: f"all {self.low}", 1: "0 and 1"}.get(most - self.low, f"{self.low} to {most}")
            said.append(f"{'booleans' if integers == {'b'} else 'integers'} {values}")
        return ", ".join(said)


SORTS = tuple(
    Sort(low, high, floats)
    for floats in FLOATS
    # 0 to 3 index almost any table; masks and token types are 0 and 1; a mask of all, divisors: 1.
    for low, high in ((0, 4), (0, 2), (1, 2), (0, 1))
)
"""What is tried one after the other, until a network can compute with it."""


def sorts_for(specs: Sequence[TensorSpec]) -> list[Sort]:
    """Return the sorts that differ for inputs of these types, in the order in which they are tried."""
    found: dict[str, Sort] = {}
    for sort in SORTS:
        found.setdefault(sort.shown(specs), sort)
    return list(found.values())


@dataclass(frozen=True)
class Usable(Generic[T]):
    """The first sort of inputs that a network can use.

    Attributes
    ----------
    result
        What came of it.
    drawn
        The sort, in words.
    refused
        Why the sorts before were no use, by their words.
    """

    sort: Sort
    result: T
    drawn: str
    refused: dict[str, str]


def first_usable(specs: Sequence[TensorSpec], attempt: Callable[[Sort], T]) -> Usable[T]:
    """Return what `attempt` makes of the first sort with which it raises no `UnusableSampleError`.

    Raises
    ------
    UsageError
        None is of use; it tells why the first one is not, and which others were tried.
    """
    refused: dict[str, UnusableSampleError] = {}
    for sort in sorts_for(specs):
        drawn = sort.shown(specs)
        try:
            result = attempt(sort)
        except UnusableSampleError as error:
            refused[drawn] = error
            continue
        return Usable(sort, result, drawn, {each: error.reason for each, error in refused.items()})
    first, *others = refused
    also = f"; nor with {'; '.join(others)}" if others else ""
    told = refused[first]
    raise UsageError(f"{told.message} (tried with {first}{also})", told.hint) from told


def samples(specs: Sequence[TensorSpec], seed: int, sort: Sort = SORTS[0]) -> Inputs:
    """Return an array for each input, the same for the same seed, name, shape, dtype and sort."""
    return {spec.name: _sample(spec, seed, sort) for spec in specs}


def _sample(spec: TensorSpec, seed: int, sort: Sort) -> np.ndarray:
    digest = hashlib.sha256(f"{seed}/{spec.name}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        return FLOATS[sort.floats](generator, spec.shape).astype(spec.dtype)
    high = min(sort.high, 2) if spec.dtype == "bool" else sort.high
    return generator.integers(sort.low, high, spec.shape).astype(spec.dtype)
