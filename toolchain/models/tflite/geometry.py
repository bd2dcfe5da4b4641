"""Paddings of windows, as TensorFlow computes them from extents."""

from __future__ import annotations

SAME, VALID = 0, 1
"""The schema's `Padding`."""


def window_padding(padding: int, size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Return the padding before and behind along one dimension.

    With SAME the result has `ceil(size / stride)` elements; what is odd is padded behind.

    Raises
    ------
    ValueError
        The padding is unknown, or an extent is not positive.
    """
    if padding not in (SAME, VALID) or min(size, window, stride, dilation) < 1:
        raise ValueError(f"padding {padding}, {window} of {size}, stride {stride}, dilation {dilation}")
    if padding == VALID:
        return 0, 0
    count = -(-size // stride)
    total = max((count - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2
