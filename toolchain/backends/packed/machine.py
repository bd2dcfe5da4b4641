"""What code may be like, as a machine allows it. `machines` has the table of those there are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from toolchain.backends.packed.loops.instruction import Instruction, Operand, Products, multiply_add
from toolchain.backends.packed.loops.pieces import ParallelLoop, Pieces

Loads = Literal["inputs", "weights"]
FLOATS = (multiply_add("float32"), multiply_add("float16"))


@dataclass(frozen=True)
class Rates:
    """What one core does in a second, inside a network.

    Attributes
    ----------
    flops
        Operations of float32 products in registers.
    values
        Values that winograd's transforms write or read.
    stream
        Bytes of weights that lie in no cache, read while products are summed up.
    again
        Speed-up of re-reading what the second cache evicted, from a cache behind it (1.0: there is none).
    exposed, exposed_of_passes
        Share of the shorter of computing and reading that takes time of its own, though the generators fetch
        weights ahead: of a sum in one go, and of one in passes.
    held, spilled
        Values up to which winograd's transforms stay in registers, and how much slower larger ones are.
    """

    flops: float
    values: float
    stream: float
    again: float = 1.0
    exposed: float = 0.4
    exposed_of_passes: float = 0.2
    held: int = 36
    spilled: float = 3.0


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
        Bytes of a vector register; the sums that it holds are also the channels of a block.
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
    products
        How numbers are multiplied and accumulated, the best instruction for a type first.
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
    products: tuple[Products, ...] = FLOATS

    def products_of(self, dtype: str) -> Products:
        """Return how numbers of a type are multiplied: without an instruction for it by a multiply-add."""
        return next((each for each in self.products if each.inputs == dtype), multiply_add(dtype))

    @property
    def packed(self) -> frozenset[str]:
        """Types of the values that may stay packed between functions: those that are multiplied, and sums."""
        return frozenset(dtype for each in self.products for dtype in (each.inputs, each.sums))

    @property
    def lanes(self) -> int:
        """Sums of a vector register, and channels of a block."""
        return self.products_of(self.dtype).lanes(self.vector)

    def size(self, dtype: str) -> int:
        """Return the bytes of a number that is multiplied."""
        return self.products_of(dtype).size

    def flops(self, dtype: str) -> float:
        """Return the operations per second of products of a type, in registers."""
        return self.rates.flops * self.products_of(dtype).rate

    def vectors(self, count: int) -> int:
        """Return the numbers of so many vectors that are computed as one, or of as many as there may be."""
        return min(count * self.lanes, max(self.widths)) if self.widths else count * self.lanes

    def columns(self, blocks: int) -> int:
        """Return how many columns of sums of so many blocks registers hold, beside weights and inputs."""
        if self.loads == "weights":  # those of a vector of inputs, which are loaded one after the other
            weights = self.lanes * self.lanes * self.size(self.dtype) // self.vector
            return (self.registers - 1) // blocks - weights
        if self.operand == "lane":  # a vector of each column's inputs too
            return (self.registers - blocks) // (blocks + 1)
        return (self.registers - blocks - 1) // blocks

    def instruction(self, dtype: str, lanes: int | None = None) -> Instruction:
        """Return what multiplies and accumulates numbers of a type, by default in full vectors of a block."""
        made = self.products_of(dtype)
        return made.code(made, self.lanes if lanes is None else lanes, self.operand)

    def of(self, threads: int, dtype: str = "float32") -> Machine:
        """Return the machine with so many cores that compute in a type."""
        return replace(self, threads=threads, dtype=dtype)

    def having(self, instructions: Collection[str]) -> Machine:
        """Return the machine with only those products whose instruction a CPU has."""
        there = tuple(each for each in self.products if not each.needs or each.needs in instructions)
        return replace(self, products=there)
