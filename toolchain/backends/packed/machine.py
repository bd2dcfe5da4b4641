"""The properties of a machine that code generators use; `machines` has the table of machines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Literal

from toolchain.architectures.architecture import Rates
from toolchain.backends.packed.dot_products import Instruction, Operand, Products, multiply_add
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.pieces import ParallelLoop, Pieces
from toolchain.backends.packed.recognise.contraction import FLOATING
from toolchain.backends.packed.recognise.convolution import BYTES

Loads = Literal["inputs", "weights"]
FLOATS = (multiply_add("float32"), multiply_add("float16"))

STAYS = 256 << 10
"""Bytes of weights that are assumed to stay in L2 between runs."""


@dataclass(frozen=True)
class Tiles:
    """The best register tiles, as measured or modelled: how many sums LLVM keeps in registers.

    Attributes
    ----------
    blocks
        Output blocks of a tile of a direct convolution, the best number first.
    columns
        Largest number of columns of such a tile.
    sums
        Largest number of sum vectors; None: only the registers limit it.
    pointwise
        The same for 1x1 convolutions, which hold no inputs of other taps; None: the limit of the others.
    strided
        The same if neighbouring taps of a stride share inputs, which LLVM then keeps; None: no lower limit.
    depthwise
        Columns of a depthwise convolution; and the columns for short rows or strides above 1.
    short
        Widest image whose rows count as short.
    transposed
        Largest number of columns of a tile of a transposed convolution.
    paired
        Largest number of vectors of partial sums, where there are several for each vector of sums.
    paired_blocks
        Output blocks of such a tile, the best number first.
    widened
        Largest number of sum vectors where inputs are widened: products need a register of their own before
        they are added; None: the limit of the others.
    flattens
        Whether tiles may span two rows, because that is worth the divisions it costs.
    spare
        Which of winograd's tiles leave one more register free: `narrow` ones of one output block, or all.
    """

    blocks: tuple[int, ...] = (2, 3)
    columns: int = 12
    sums: int | None = None
    pointwise: int | None = None
    strided: int | None = None
    depthwise: tuple[int, int] = (8, 8)
    short: int = 0
    transposed: int = 4
    paired: int = 16
    paired_blocks: tuple[int, ...] = (2, 3)
    widened: int | None = None
    flattens: bool = False
    spare: Literal["none", "narrow", "all"] = "none"


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that code generators use.

    Attributes
    ----------
    isa
        Name of the instruction set.
    vector
        Size of a vector register in bytes; the number of sums in it is also the channels of a block.
    registers
        Number of vector registers.
    operand
        How one input channel meets a vector of output channels: broadcast from `memory` (x86), or by `lane`:
        a vector of input channels is loaded once and multiplied lane by lane (ARM).
    prefetches
        Whether code prefetches weights.
    near
        Bytes of weights that stay in L1 beside inputs and sums.
    cache
        Size of L2 in bytes.
    pieces
        Emits the loop or grid that runs the independent pieces of a function.
    widths
        Vector widths in numbers; None: any, because LLVM splits them.
    in_order
        Whether instructions are issued in order.
    divides
        Whether dividing a vector takes less time than the multiply-adds that approximate its inverse.
    fuses
        Whether one instruction multiplies and adds, rounding once.
    loads
        Operand that a tile loads first and keeps for all its products: inputs of every column, or weights.
    group
        Largest number of work items in a group; 0 if there are no groups.
    shared
        Bytes of local memory that a group may have; 0 if generated code uses none.
    gpu
        GPU with local memory for which kernels are estimated; None: the machine is none.
    rounds
        Whether factors of products may be rounded to tfloat32.
    threads
        Number of cores that work on one network.
    dtype
        Type in which the network computes.
    products
        Instructions that multiply and accumulate, the best for a type first.
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
    divides: bool = False
    fuses: bool = False
    loads: Loads = "inputs"
    group: int = 0
    shared: int = 0
    gpu: GpuRow | None = None
    rounds: bool = False
    threads: int = 1
    dtype: str = "float32"
    products: tuple[Products, ...] = FLOATS

    def products_of(self, dtype: str) -> Products:
        """Return the instruction for products of a type; a multiply-add if there is no other."""
        return next((each for each in self.products if each.inputs == dtype), multiply_add(dtype))

    @property
    def integers(self) -> dict[str, str]:
        """Types of integers that it multiplies with sums in int32: of an input -> of its weight.

        Empty where vectors of numbers of its type are not of as many lanes.
        """
        whole = [
            each for each in self.products if each.sums == "int32" and each.lanes(self.vector) == self.lanes
        ]
        return {each.inputs: each.weights for each in whole}

    @property
    def least(self) -> int | None:
        """Smallest weight of products of integers; None: any of its type."""
        bounds = (self.products_of(dtype).least for dtype in self.integers)
        return max((each for each in bounds if each is not None), default=None)

    @property
    def channels_of_bytes(self) -> bool:
        """Whether depthwise convolutions of bytes are computed in integers."""
        return any(self.products_of(each).code.by_channel for each in self.integers)

    @property
    def packed(self) -> frozenset[str]:
        """Types of values that may stay packed between functions: those of factors and of sums.

        Where one of both types of bytes is a factor, values of the other are read and written beside it.
        """
        found = frozenset(dtype for each in self.products for dtype in (each.inputs, each.sums))
        return found | BYTES if found & BYTES else found

    @property
    def lanes(self) -> int:
        """Number of sums in a vector register, and of channels in a block."""
        return self.products_of(self.dtype).lanes(self.vector)

    @property
    def stored(self) -> frozenset[str]:
        """Types in which a contraction's function may store its result: floats, and bytes if it has them."""
        return FLOATING | (self.packed & BYTES)

    def size(self, dtype: str) -> int:
        """Return the size of a factor in bytes."""
        return self.products_of(dtype).size

    def flops(self, dtype: str) -> float:
        """Return the operations per second for products of a type, in registers."""
        return self.rates.flops * self.products_of(dtype).rate

    def vectors(self, count: int) -> int:
        """Return the numbers in `count` vectors computed as one, limited to the widest vector."""
        return min(count * self.lanes, max(self.widths)) if self.widths else count * self.lanes

    def paired(self, dtype: str, blocks: int) -> int | None:
        """Return the most columns of a tile whose sums are in parts; None if sums are whole."""
        parts = self.products_of(dtype).parts
        return None if parts == 1 else max(1, self.tiles.paired // (parts * blocks))

    def columns_of(self, dtype: str, blocks: int) -> int:
        """Return how many columns of sums of products of a type fit registers, by `columns` and `tiles`."""
        columns = self.columns(blocks)
        if self.tiles.widened is None or not self.products_of(dtype).widened:
            return columns
        return min(columns, max(1, self.tiles.widened // blocks))

    def columns(self, blocks: int) -> int:
        """Return how many columns of sums of `blocks` blocks fit registers beside weights and inputs."""
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
        """Return this machine with `threads` cores that compute in a type."""
        return replace(self, threads=threads, dtype=dtype)

    def without_integers(self) -> Machine:
        """Return this machine with only the products of floats."""
        return replace(self, products=tuple(each for each in self.products if each.sums != "int32"))

    def having(self, instructions: Collection[str]) -> Machine:
        """Return this machine with only the products whose instruction a CPU has."""
        there = tuple(each for each in self.products if not each.needs or each.needs in instructions)
        return replace(self, products=there)
