"""Facts about a kernel that its source code shows without a compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4}
_BYTES |= {"long": 8, "ulong": 8, "double": 8, "bool": 1, "size_t": 8}


@dataclass(frozen=True)
class Language:
    """Regular expressions for the source code of kernels of one kind of device.

    Attributes
    ----------
    array
        Matches the declaration of a private array; its groups are the element type, the vector width (or
        nothing) and the length.
    vector
        Matches a vector load or store; its group is the number of elements.
    half
        Matches the type float16.
    barrier
        Text of a call of the work group's barrier.
    """

    array: re.Pattern[str]
    vector: re.Pattern[str]
    half: re.Pattern[str]
    barrier: str

    def private_bytes(self, source: str) -> int:
        """Return the bytes of the private arrays of a work item."""
        return sum(
            _BYTES[kind] * (4 if width == "3" else int(width or 1)) * int(count)
            for kind, width, count in self.array.findall(source)
        )

    def vector_width(self, source: str) -> int:
        """Return the number of elements of the widest vector load or store; 1 without vectors."""
        return max((int(width) for width in self.vector.findall(source)), default=1)


OPENCL_C = Language(
    array=re.compile(rf"(?m)^\s*(?:__private\s+)?\b({'|'.join(_BYTES)})(2|3|4|8|16)?\s+\w+\[(\d+)\];"),
    vector=re.compile(r"\bv(?:load|store)(?:_half)?(2|3|4|8|16)\b"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="barrier(",
)

CUDA_CPP = Language(
    array=re.compile(
        r"(?m)^\s*(?:alignas\(\d+\) )?(?:signed |unsigned )?\b"
        r"(char|short|half|int|float|double)(2|3|4)?\s+\w+\[(\d+)\];"
    ),
    vector=re.compile(r"\*\((?:u?char|u?short|u?int|half|float|double)(2|4)\*\)"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="__syncthreads(",
)
