"""What code may be like, as a machine allows it. `machines` has the table of those there are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from toolchain.backends.packed.loops.instruction import Instruction, MultiplyAdd, Operand
from toolchain.backends.packed.loops.pieces import ParallelLoop, Pieces

Loads = Literal["inputs", "weights"]


@dataclass(frozen=True)
class Rates:
    """What one core does in a second, inside a network.

    Attributes
    ----------
    flops
        Floating-point operations of products in registers.
    values
        Values that winograd's transforms write or read.
    stream
        Bytes of weights that lie in no cache, read while products are summed up.
    again
        So much faster comes what the second cache had to give up, from the cache behind it if there is one.
    """

    flops: float
    values: float
    stream: float
    again: float = 1.0


@dataclass(frozen=True)
class Tiles:
    """How many sums LLVM keeps in registers, and which tiles were measured (or modelled) to be the best.

    Attributes
    ----------
    blocks
        Output blocks of a tile of a direct convolution, the best first.
    columns
        Most columns of such a tile.
    sums
        Most vectors of its sums; None: as many as there are registers.
    pointwise
        The same of 1x1 convolutions, where no other tap's inputs are held; None: no more than of others.
    strided
        The same where neighbouring taps of a stride share inputs, which LLVM then keeps; None: no fewer.
    depthwise
        Columns of a depthwise convolution, and where a tile is short or its stride is more than 1.
    short
        Columns of an image up to which such a tile is short.
    transposed
        Most columns of a tile of a transposed convolution.
    flattens
        Tiles that go from the end of a row to the begin of the next are worth the divisions for it.
    spare
        Winograd's tiles leave one register more: `narrow` ones of one output block, or all.
    """

    blocks: tuple[int, ...] = (2, 3)
    columns: int = 12
    sums: int | None = None
    pointwise: int | None = None
    strided: int | None = None
    depthwise: tuple[int, int] = (8, 8)
    short: int = 0
    transposed: int = 4
    flattens: bool = False
    spare: Literal["none", "narrow", "all"] = "none"


@dataclass(frozen=True)
class Machine:
    """What generated code may be like.

    Attributes
    ----------
    isa
        Name of the instruction set.
    vector
        Bytes of a vector register; its numbers are also the channels of a block.
    registers
        Vector registers.
    operand
        How one input channel meets a vector of output channels: broadcast from `memory` (x86), or by `lane`:
        a vector of input channels is loaded once and multiplied lane by lane (ARM).
    prefetches
        Code asks for weights before it needs them.
    near
        Bytes of weights that stay in the first cache beside inputs and sums.
    cache
        Bytes of the second-level cache.
    pieces
        What runs the independent pieces of a function.
    widths
        How many numbers a vector may have; None: any, LLVM cuts them.
    in_order
        Instructions are issued in their order.
    loads
        What a tile loads first, and keeps for all its products: inputs of every column, or weights.
    group
        Most work items of a group; 0: there are none.
    threads
        Cores that work on one network.
    dtype
        What the network computes in.
    """

    isa: str
    vector: int
    registers: int
    operand: Operand
    prefetches: bool
    near: int
    cache: int
    rates: Rates
    tiles: Tiles
    pieces: Pieces = field(default_factory=ParallelLoop)
    widths: tuple[int, ...] | None = None
    in_order: bool = False
    loads: Loads = "inputs"
    group: int = 0
    threads: int = 1
    dtype: str = "float32"

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 2 if self.dtype == "float16" else 4

    @property
    def lanes(self) -> int:
        """Numbers of a vector register."""
        return self.vector // self.size

    def vectors(self, count: int) -> int:
        """Return the numbers of so many vectors that are computed as one, or of as many as there may be."""
        return min(count * self.lanes, max(self.widths)) if self.widths else count * self.lanes

    def columns(self, blocks: int) -> int:
        """Return how many columns of sums of so many blocks registers hold, beside weights and inputs."""
        if self.loads == "weights":  # those of a vector of inputs, which are loaded one after the other
            return (self.registers - 1) // blocks - self.lanes
        if self.operand == "lane":  # a vector of each column's inputs too
            return (self.registers - blocks) // (blocks + 1)
        return (self.registers - blocks - 1) // blocks

    def multiply_add(self, dtype: str, lanes: int | None = None) -> Instruction:
        """Return what multiplies and accumulates numbers of a type, by default in full vectors of a block."""
        return MultiplyAdd(self.lanes if lanes is None else lanes, dtype, self.operand)

    def of(self, threads: int, dtype: str = "float32") -> Machine:
        """Return the machine with so many cores that compute in a type."""
        return replace(self, threads=threads, dtype=dtype)
