"""A kernel as source and the launch that a network makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.devices.language import OPENCL_C, Language

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """A kernel and its launch.

    Attributes
    ----------
    source
        Source of this one function, as TVM writes it.
    group
        Work items of a work group, in x, y and z.
    groups
        Work groups of the launch.
    arguments
        Bytes of each buffer that it is given.
    language
        What the source is written in.
    """

    name: str
    source: str
    group: Extents
    groups: Extents
    arguments: tuple[int, ...] = ()
    language: Language = OPENCL_C

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
        return self.language.vector_width(self.source)

    @property
    def private_bytes(self) -> int:
        """Bytes of the arrays that every work item has for itself: sums, mostly.

        More than 16 registers of 16 bytes cannot all stay in registers of a Mali.
        """
        return self.language.private_bytes(self.source)

    @property
    def computes_half(self) -> bool:
        """Whether the source names float16."""
        return self.language.half.search(self.source) is not None

    @property
    def barriers(self) -> int:
        """Places where the work items of a group wait for each other."""
        return self.source.count(self.language.barrier)
