"""The container of machine code for GPUs that libraries embed; `native/src/cuda` reads it.

All numbers are little-endian:

    "EDGECUDA", u32 version
    u32 units; of each:
        u32 kernels; of each: u32 length, name
        u32 codes; of each: u32 architecture, u32 version of CUDA that compiled it, u64 size, the code
    u32 length, comment
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from toolchain.lowering.dialects.source import KernelUnit

MAGIC = b"EDGECUDA"
VERSION = 1


def container(units: Sequence[KernelUnit], comment: str) -> bytes:
    """Return the container of the functions' machine code."""
    return b"".join(_pieces(units, comment))


def _pieces(units: Sequence[KernelUnit], comment: str) -> Iterator[bytes]:
    yield MAGIC + struct.pack("<II", VERSION, len(units))
    for unit in units:
        yield struct.pack("<I", len(unit.kernels))
        for kernel in unit.kernels:
            yield _text(kernel.name)
        yield struct.pack("<I", len(unit.codes))
        for code in unit.codes:
            yield struct.pack("<IIQ", code.architecture, code.compiler, len(code.code)) + code.code
    yield _text(comment)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data
