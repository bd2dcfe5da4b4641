"""A kernel in OpenCL C and the launch that a network makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

Extents = tuple[int, int, int]

_BYTES = {"char": 1, "uchar": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4, "float": 4}
_BYTES |= {"long": 8, "ulong": 8, "double": 8, "bool": 1, "size_t": 8}
_TYPE = rf"\b({'|'.join(_BYTES)})(2|3|4|8|16)?"
_ARRAY = re.compile(rf"(?m)^\s*(?:__private\s+)?{_TYPE}\s+\w+\[(\d+)\];")
_VECTOR = re.compile(r"\bv(?:load|store)(?:_half)?(2|3|4|8|16)\b")
_HALF = re.compile(r"\bhalf\d*\b")


@dataclass(frozen=True)
class Kernel:
    """A kernel and its launch.

    Attributes
    ----------
    source
        OpenCL C of this one function, as TVM writes it.
    group
        Work items of a work group, in x, y and z.
    groups
        Work groups of the launch.
    arguments
        Bytes of each buffer that it is given.
    """

    name: str
    source: str
    group: Extents
    groups: Extents
    arguments: tuple[int, ...] = ()

    @property
    def items_in_group(self) -> int:
        """Work items of a work group."""
        return prod(self.group)

    @property
    def items(self) -> int:
        """Work items of the launch."""
        return self.items_in_group * prod(self.groups)

    @property
    def vector_width(self) -> int:
        """Elements of the widest load or store of a vector; 1: there is none."""
        return max((int(width) for width in _VECTOR.findall(self.source)), default=1)

    @property
    def private_bytes(self) -> int:
        """Bytes of the arrays that every work item has for itself: sums, mostly.

        More than 16 registers of 16 bytes cannot all stay in registers.
        """
        return sum(
            _BYTES[kind] * (4 if width == "3" else int(width or 1)) * int(count)
            for kind, width, count in _ARRAY.findall(self.source)
        )

    @property
    def computes_half(self) -> bool:
        """Whether it handles float16: Mesa uses four of Midgard's eight lanes, so estimates are too long."""
        return _HALF.search(self.source) is not None

    @property
    def barriers(self) -> int:
        """Places where the work items of a group wait for each other."""
        return self.source.count("barrier(")
