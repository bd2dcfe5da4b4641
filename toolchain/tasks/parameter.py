"""The arguments of a function that is run by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from toolchain.arrays import Array


class Layout(Protocol):
    """How a value lies in memory."""

    def pack(self, value: Array) -> Array:
        """Return a value of the network's shape as it lies in memory."""

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Return what lies in memory in the network's shape."""


@dataclass(frozen=True)
class Parameter:
    """One argument.

    Attributes
    ----------
    shape
        As the network has it.
    layout
        How it lies in memory; None: as it is.
    value
        Of a constant, as it lies in memory; None: whatever the network computes.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: Layout | None = None
    value: Array | None = None

    def filled(self, logical: Array | None) -> Array:
        """Return the constant, else a value of the network's shape as it lies in memory.

        For None it is filled with what no code may rely on, NaN in floats: an output before it is written.
        """
        if self.value is not None:
            return self.value
        if logical is None:
            logical = np.full(self.shape, np.nan if self.dtype.startswith("float") else 0, self.dtype)
        return logical if self.layout is None else self.layout.pack(logical)

    def logical(self, value: Array) -> Array:
        """Return what lies in memory in the network's shape."""
        return value if self.layout is None else self.layout.unpack(value, self.shape)
