"""Makes the shapes of a network agree on how each weight is packed, so that a library stores it once.

The largest shape decides. A smaller one would often take another tile for the same weight, and so another
order of its numbers. It takes the tile nearest to its own that reads the weight as it is stored, if there is
one; else the weight is stored twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, replace

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.read import shape_of


def digest_of(array: Array) -> bytes:
    """Return a digest of an array's type, shape and content."""
    head = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).digest()


class Agreement:
    """The packed weights of the largest shape, and the choices by which they are read."""

    def __init__(self, choices: Choices) -> None:
        self._choices, self._machine = choices, choices.machine
        self._stored: dict[bytes, list[tuple[Choice, bytes]]] = {}  # by digest of the weight in the network

    def store(self, contraction: Contraction, weight: Array, choice: Choice) -> None:
        """Remember how the largest shape packs a weight."""
        stored = self._stored.setdefault(digest_of(weight), [])
        packed = self._packed(contraction, weight, choice)
        if packed not in (known for _choice, known in stored):
            stored.append((choice, packed))

    def agreed(self, contraction: Contraction, weight: Array, own: Choice) -> Choice:
        """Return a choice that reads the weight as it is stored; `own` if no choice does."""
        for stored, packed in self._stored.get(digest_of(weight), []):
            for choice in self._near(own, stored, contraction):
                if self._packed(contraction, weight, choice) == packed:
                    return choice
        return own

    def _near(self, own: Choice, stored: Choice, contraction: Contraction) -> Iterator[Choice]:
        """Yield legal choices from a shape's own one to that of the largest shape."""
        yield own
        if stored == GENERAL:
            yield GENERAL
            return
        if not algorithm_of(stored).applies(contraction, self._machine):
            return
        default = (
            own if type(own) is type(stored) else algorithm_of(stored).default(contraction, self._machine)
        )
        near = [] if default is None else [default]
        if default is not None:
            near += [replace(default, **{each.name: getattr(stored, each.name)}) for each in fields(stored)]
        for choice in dict.fromkeys([*near, stored]):
            if self._choices.permits(choice, contraction):
                yield choice

    def _packed(self, contraction: Contraction, weight: Array, choice: Choice) -> bytes:
        if choice == GENERAL:
            return digest_of(weight)
        algorithm = algorithm_of(choice)
        source = algorithm.source(contraction)
        lanes = self._machine.lanes
        if source is None or (shape_of(source)[1] < lanes and not algorithm.full_blocks):
            lanes = 1
        return digest_of(algorithm.weight(weight, contraction, choice, self._machine, lanes))
