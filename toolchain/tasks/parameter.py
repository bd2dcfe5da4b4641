"""The parameters of a function that is measured alone, and their layouts in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from toolchain.arrays import Array


class MemoryLayout(Protocol):
    """Converts a value between the network's shape and its layout in memory."""

    def pack(self, value: Array) -> Array:
        """Convert a value from the network's shape to its layout in memory."""

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Convert a value from its layout in memory to the network's shape, `logical`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes
    ----------
    shape
        Shape in the network, before any packing.
    layout
        Layout in memory; None: row-major, in the network's shape.
    value
        The value of a constant, in its layout in memory; None if it is no constant.
    pack
        Returns another weight in the layout in which this constant one is; None for other parameters, and in
        another process: there nobody asks, and it knows too much to be sent.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: MemoryLayout | None = None
    value: Array | None = None
    pack: Callable[[Array], Array] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "pack": None}

    def filled(self, logical: Array | None) -> Array:
        """Return the argument in its layout in memory: the constant, else the packed `logical`.

        Parameters
        ----------
        logical
            The value in the network's shape. None for an output: then the result is filled with NaN (zeros
            for integers), so that a function that leaves values unwritten is noticed.
        """
        if self.value is not None:
            return self.value
        if logical is None:
            logical = np.full(self.shape, np.nan if self.dtype.startswith("float") else 0, self.dtype)
        return logical if self.layout is None else self.layout.pack(logical)

    def logical(self, value: Array) -> Array:
        """Convert a value from its layout in memory to the network's shape."""
        return value if self.layout is None else self.layout.unpack(value, self.shape)
