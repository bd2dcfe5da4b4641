"""Convolutions that only estimates and choices look at: of their buffers only the input's type counts."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from toolchain.backends.packed.recognise.convolution import Convolution

FLOATS: Any = tirx.decl_buffer((1,), "float32")
NO_BUFFER: Any = None


def conv3x3(ci: int, co: int, size: int, batch: int = 1) -> Convolution:
    """Return a 3 x 3 convolution with pads of 1."""
    return Convolution(
        batch, ci, co, 1, (size, size), (3, 3), (size, size), (1, 1), (1, 1),
        FLOATS, NO_BUFFER, NO_BUFFER, (1, 1, 1, 1),
    )  # fmt: skip
