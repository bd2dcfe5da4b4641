"""A kernel as source code, with the launch that a network makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from toolchain.devices.language import OPENCL_C, Language

Extents = tuple[int, int, int]


@dataclass(frozen=True)
class Resources:
    """Needs of a kernel's machine code, as its compiler reports them.

    Attributes
    ----------
    architecture
        Architecture of the machine code, such as `sm_90`.
    registers
        Number of registers of a work item.
    spilled_bytes
        Bytes that a work item writes to memory and reads back since registers do not suffice.
    stack_bytes
        Memory of a work item for arrays that do not fit into registers.
    local_bytes
        Local (shared) memory of a work group.
    """

    architecture: str
    registers: int
    spilled_bytes: int
    stack_bytes: int
    local_bytes: int


@dataclass(frozen=True)
class Kernel:
    """The source code of a kernel, and the size of its launch.

    Attributes
    ----------
    source
        Source code of this function alone, as TVM generates it.
    group
        Size of a work group in work items, along x, y and z.
    groups
        Number of work groups of the launch, along x, y and z.
    arguments
        Size of each buffer argument in bytes.
    language
        Language of the source code.
    resources
        What its machine code needs, for each architecture; empty if the board's driver compiles it.
    """

    name: str
    source: str
    group: Extents
    groups: Extents
    arguments: tuple[int, ...] = ()
    language: Language = OPENCL_C
    resources: tuple[Resources, ...] = ()

    @property
    def items_in_group(self) -> int:
        """Number of work items of a work group."""
        return prod(self.group)

    @property
    def items(self) -> int:
        """Number of work items of the launch."""
        return self.items_in_group * prod(self.groups)

    @property
    def vector_width(self) -> int:
        """Number of elements of the widest vector load or store; 1 without vectors."""
        return self.language.vector_width(self.source)

    @property
    def private_bytes(self) -> int:
        """Bytes of the private arrays of a work item: mostly sums.

        On a Mali, more than 16 registers of 16 bytes cannot all stay in registers: the rest spills.
        """
        return self.language.private_bytes(self.source)

    @property
    def computes_half(self) -> bool:
        """Whether the source code uses float16."""
        return self.language.half.search(self.source) is not None

    @property
    def barriers(self) -> int:
        """Number of barriers in the source code, at which the work items of a group wait for each other."""
        return self.source.count(self.language.barrier)
