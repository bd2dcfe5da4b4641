"""A TensorFlow Lite network as plain values, whatever library read its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toolchain.arrays import Array


@dataclass(frozen=True)
class Quantisation:
    """How integers represent real numbers: `(integer - zero) * scale`.

    Attributes
    ----------
    scale
        float32, one for the tensor or one for each index of dimension `axis`; all finite and positive.
    zero
        int64, of the shape of `scale`.
    axis
        Dimension along which `scale` varies; None: one scale for the whole tensor.
    """

    scale: Array
    zero: Array
    axis: int | None = None

    def equals(self, other: Quantisation) -> bool:
        """Whether both represent every number by the same integer."""
        return (
            np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
            and self.axis == other.axis
        )


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor of the file.

    Attributes
    ----------
    index
        Its place in the file.
    dtype
        Its numpy name.
    quantisation
        None: its values stand for themselves.
    data
        Its bytes if the file stores them, little-endian; of the size that shape and type ask for.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    quantisation: Quantisation | None = None
    data: memoryview | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class TfliteOperator:
    """An operator of the file.

    Attributes
    ----------
    place
        Its place in the file; it runs in this order.
    name
        The schema's name, such as `CONV_2D`.
    inputs, outputs
        Indices of tensors; None for an input that is left out.
    options
        The fields of its options by the schema's names, such as `stride_h`; empty if it has none.
    """

    place: int
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"operator {self.place} ({self.name})"


@dataclass(frozen=True)
class TfliteNetwork:
    """The network of a file; inputs and outputs are indices of tensors.

    Attributes
    ----------
    stored_bytes
        The size of the file.
    """

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    stored_bytes: int
