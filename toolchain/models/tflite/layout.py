"""Layouts of values: TensorFlow Lite has channels last, ONNX's windows want them first."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class ChannelOrder(Enum):
    """Order of a value's dimensions; values of other ranks than 4 have only `LAST`."""

    LAST = "nhwc"
    FIRST = "nchw"


TO_FIRST = (0, 3, 1, 2)
"""Permutation of NHWC that makes NCHW."""

TO_LAST = (0, 2, 3, 1)
"""Permutation of NCHW that makes NHWC; so also the place of each dimension of NHWC in NCHW."""


def placed(axis: int, rank: int, layout: ChannelOrder) -> int:
    """Return the place in a layout of dimension `axis` of a tensor; negative ones count from the end.

    Raises
    ------
    ValueError
        The tensor has no such dimension.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"dimension {axis} of {rank}")
    return TO_LAST[axis % rank] if layout is ChannelOrder.FIRST else axis % rank


def arranged(values: Sequence[int], layout: ChannelOrder) -> list[int]:
    """Return one number for each dimension in the order of a layout."""
    return [values[axis] for axis in TO_FIRST] if layout is ChannelOrder.FIRST else list(values)
