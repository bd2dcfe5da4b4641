"""Recognises the contraction of a function, without its epilogue."""

from __future__ import annotations

from typing import TypeAlias

from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.matmul import Matmul, covers, matmul, window
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.recognise.transposed import Transposed, transposed

Contraction: TypeAlias = Convolution | Matmul | Transposed


def recognise(read: Read) -> Contraction | None:
    """Return the first contraction in a function; None if it has none."""
    conv = convolution(read)
    if conv is not None:
        return window(conv) if covers(conv) else conv
    return transposed(read) or matmul(read)
