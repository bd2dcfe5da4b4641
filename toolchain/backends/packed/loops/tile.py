"""The register tile: sums in registers, and the code that adds products to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import pairwise

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.dot_products import (
    WORD,
    DotProduct,
    Instruction,
    distance_between,
    neighbours_of,
)
from toolchain.backends.packed.loops.nest import Nest, Words, tiles
from toolchain.backends.packed.machine import Loads
from toolchain.backends.packed.pairs import TOGETHER, Pairs
from toolchain.backends.packed.recognise.read import Expr

# Sums of products in registers.
#
# float16 products are summed up in float16, at twice the rate of float32. A long sum loses small products
# (the error grows with the square root of their number), so partial sums of up to `_PART` products are
# added up in float32, in memory. Largest errors of ResNet-18's outputs relative to their largest (the
# manifest allows 2e-2) for parts of 2, 16, 32, 64, 96 products: 7.5e-3, 6.5e-3, 5.9e-3, 6.7e-3 and 1.3e-2
# with images of 64 x 64; for parts of 2, 8, 32, 128 and all: 7.4e-3, 8.5e-3, 9.8e-3, 1.35e-2 and 2.5e-2
# with 224 x 224.

_PART = 64


class Sums:
    """The sums of a tile: for each block a buffer of `vectors` vectors with `lanes` sums.

    Parameters
    ----------
    dtype
        Type of the products.
    count
        Number of products per sum.

    Attributes
    ----------
    registers
        Buffers to which products are added, one per block.
    totals
        Buffers of the complete sums; the same buffers if there are no partial sums.
    """

    def __init__(self, nest: Nest, blocks: int, vectors: int, lanes: int, dtype: str, count: int) -> None:
        self.nest, self.vectors, self.lanes, self.dtype = nest, vectors, lanes, dtype
        self.registers = [self.nest.local((vectors * lanes,), dtype) for _ in range(blocks)]
        self.totals = self.registers
        if dtype == "float16" and count > _PART:
            self.totals = [self.nest.local((vectors * lanes,), "float32") for _ in range(blocks)]

    def clear(self) -> None:
        """Emit stores of zero to all sums."""
        self._clear(self.totals)

    @contextmanager
    def loops(self, extents: Sequence[int], each: int) -> Iterator[Sequence[Expr]]:
        """Emit loops around code that adds `each` products to every register; yield the place per axis."""
        if self.totals is self.registers:
            with self.nest.grid(extents) as steps:
                yield steps
            return
        cut = _cut(extents, each)
        with self.nest.grid([extent // inner for extent, inner in zip(extents, cut, strict=True)]) as parts:
            self._clear(self.registers)
            with self.nest.grid(cut) as steps:
                yield [
                    self.nest.simplify(part * inner + step)
                    for part, inner, step in zip(parts, cut, steps, strict=True)
                ]
            for part_of, total in zip(self.registers, self.totals, strict=True):
                with self.nest.unroll(self.vectors) as row, self.nest.vector(self.lanes) as lane:
                    here = row * self.lanes + lane
                    ir.buffer_store(total, total[here] + part_of[here].astype("float32"), [here])

    def shares(self, extent: int) -> list[tuple[int, int]]:
        """Return parts of an axis of single products, which need not have a divisor: (start, count)."""
        full = 0 if self.totals is self.registers else extent // _PART * _PART
        return [(start, count) for start, count in ((0, full), (full, extent - full)) if count]

    def _clear(self, sums: Sequence[tirx.Buffer]) -> None:
        for total in sums:
            zero = tirx.const(0, str(total.dtype))
            with self.nest.unroll(self.vectors) as row, self.nest.vector(self.lanes) as lane:
                ir.buffer_store(total, zero, [row * self.lanes + lane])


def _cut(extents: Sequence[int], each: int) -> list[int]:
    """Return how much of each axis a partial sum covers, beginning with the last axes."""
    found: list[int] = []
    left = max(1, _PART // each)
    for extent in reversed(extents):
        inner = max(size for size in range(1, min(extent, left) + 1) if extent % size == 0)
        found.insert(0, inner)
        left = left // inner if inner == extent else 1
    return found


# Returns the input, given column and channel.
Source = Callable[[Expr, Expr], Expr]
# Returns the weight, given channel, block and lane.
Weight = Callable[[Expr, int, Expr], Expr]
# Emits further code, such as a prefetch; gets the channel, or nothing if a whole vector was loaded.
Ahead = Callable[[list[Expr]], None]


class Tile:
    """A register tile of sums of products: `blocks` vectors of outputs x `columns` places.

    Parameters
    ----------
    count
        Number of products per sum.
    loads
        Operand to load first: inputs of every column, or the weights that several inputs use.
    """

    def __init__(
        self,
        nest: Nest,
        instruction: Instruction,
        blocks: int,
        columns: int,
        count: int,
        loads: Loads = "inputs",
    ) -> None:
        self.nest, self.instruction, self.blocks, self.columns = nest, instruction, blocks, columns
        self.loads = loads
        products = instruction.products
        self.sums = Sums(nest, blocks, columns * products.parts, instruction.lanes, products.sums, count)
        self.sums.clear()

    @property
    def totals(self) -> list[tirx.Buffer]:
        """Buffers of the complete sums: one of `columns` vectors for each block."""
        return self.sums.totals

    def joined(self) -> list[tirx.Buffer]:
        """Emit the sums of partial sums, if there are any; return the complete sums."""
        instruction, columns = self.instruction, self.columns
        if not isinstance(instruction, Pairs):
            return self.totals
        made = []
        for parts in self.totals:
            total = self.nest.local((columns * instruction.lanes,), instruction.products.sums)
            instruction.join(total, parts, columns)
            made.append(total)
        return made

    def loops(self, extents: Sequence[int], channels: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit loops around code that multiplies `channels` inputs of each column; yield their variables."""
        return self.sums.loops(extents, channels)

    def inputs(self, channels: int) -> Inputs:
        """Return the inputs that are multiplied together; create them outside of the loops."""
        return Inputs(self, channels)

    def add(self, column: Expr, x: Callable[[int], Expr], weight: Callable[[int, int, Expr], Expr]) -> None:
        """Emit one instruction for every block of a column.

        Parameters
        ----------
        x
            Returns the input, given k below the instruction's depth.
        weight
            Returns the weight, given k, block and lane.
        """
        lanes = self.instruction.lanes
        for block, total in enumerate(self.sums.registers):
            of_block = partial(_of_block, weight, block)
            self.instruction.emit(self.nest, total, column * lanes, x, of_block)

    def add_pairs(
        self,
        words: Sequence[Callable[[int], Expr]],
        weights: Sequence[Callable[[int, int, Expr], Expr]],
    ) -> None:
        """Emit products in pairs for every column and block, of one step or of two.

        Parameters
        ----------
        words
            Returns four inputs of a column; for each step.
        weights
            Returns the weight, given k, block and lane; for each step.

        Raises
        ------
        TypeError
            The instruction multiplies no pairs.
        """
        instruction = self.instruction
        if not isinstance(instruction, Pairs):
            raise TypeError(f"{instruction.products.inputs}: the machine multiplies no pairs")
        for column in range(self.columns):
            first, inputs = tirx.const(column * instruction.lanes, "int32"), [word(column) for word in words]
            for block, total in enumerate(self.sums.registers):
                of_block = [partial(_of_block, weight, block) for weight in weights]
                instruction.accumulate(total, first, inputs, of_block)

    def kept(self, weight: Callable[[int, int, Expr], Expr]) -> Callable[[int, int, Expr], Expr]:
        """Load one instruction's weights for every block; return a function that reads the registers."""
        lanes, products, made = self.instruction.lanes, self.instruction.products, []
        for block in range(self.blocks):
            made.append(self.nest.local((products.depth * lanes,), products.weights))
            for k in range(products.depth):
                with self.nest.vector(lanes) as lane:
                    ir.buffer_store(made[block], weight(k, block, lane), [k * lanes + lane])
        return lambda k, block, lane: made[block][k * lanes + lane]


def _of_block(weight: Callable[[int, int, Expr], Expr], block: int, k: int, lane: Expr) -> Expr:
    return weight(k, block, lane)


class Inputs:
    """The inputs of a step: `channels` channels for every column, in registers if the operand is a lane."""

    def __init__(self, tile: Tile, channels: int) -> None:
        self.tile, self.channels = tile, channels
        self.products = tile.instruction.products
        if channels % self.products.depth:
            raise ValueError(f"{channels} channels are not multiplied {self.products.depth} at a time")
        self.dots = isinstance(tile.instruction, DotProduct)  # inputs of a dot product are read as one number
        self.per_column = channels // self.products.depth if self.dots else channels
        self.kept: tirx.Buffer | None = None
        self.words: Words | None = None
        if isinstance(tile.instruction, Pairs):
            self.words = Words(tile.nest, tile.columns, channels // self.products.depth)
            return
        if tile.instruction.operand == "lane" and tile.loads == "inputs":
            kind = WORD if self.dots else self.products.inputs
            self.kept = tile.nest.local((tile.columns * self.per_column,), kind)

    def multiply(self, source: Source, weight: Weight, ahead: Ahead | None = None) -> None:
        """Emit the products of all channels and columns with the weights of all blocks."""
        nest, depth, kept = self.tile.nest, self.products.depth, self.kept
        if self.words is not None:
            self.words.load(source)
            self._by_pairs(self.words, weight)
            return
        if self.tile.loads == "weights":
            self._by_weights(source, weight)
            return
        if kept is not None:
            if self.dots:
                self._load_words(kept, source)
            else:
                with nest.unroll(self.tile.columns) as column, nest.vector(self.channels) as lane:
                    ir.buffer_store(kept, source(column, lane), [column * self.channels + lane])
            if ahead is not None:
                ahead([])
        with self._steps() as step:
            if kept is None and ahead is not None:
                ahead([step])
            with nest.unroll(self.tile.columns) as column:

                def channel(k: int) -> Expr:
                    return step if depth == 1 else step * depth + k

                def x(k: int) -> Expr:
                    if kept is None:
                        return source(column, channel(k))
                    return kept[column * self.per_column + (step if self.dots else channel(k))]

                self.tile.add(column, x, lambda k, block, lane: weight(channel(k), block, lane))

    def _by_pairs(self, words: Words, weight: Weight) -> None:
        """Emit the products of all steps of loaded words, two together."""
        depth = self.products.depth

        def weight_of(step: int) -> Callable[[int, int, Expr], Expr]:
            return lambda k, block, lane: weight(tirx.const(step * depth + k, "int32"), block, lane)

        for first in range(0, words.steps, TOGETHER):
            steps = range(first, min(first + TOGETHER, words.steps))
            of_steps = [partial(words.word, step=step) for step in steps]
            self.tile.add_pairs(of_steps, [weight_of(step) for step in steps])

    def _load_words(self, kept: tirx.Buffer, source: Source) -> None:
        """Load the inputs of dot products, those of neighbouring columns together if they are neighbours."""
        depth, each, zero = self.products.depth, self.per_column, tirx.const(0, "int32")

        def at(word: int) -> TensorLoad:
            column, step = divmod(word, each)
            return neighbours_of(source(zero + column, zero + step * depth), 1)

        count = self.tile.columns * each
        together = count if self._in_line(at) else each
        for first in range(0, count, together):
            for start, many, size in tiles(together, self.tile.instruction.lanes):
                for word in range(first + start, first + start + many * size, size):
                    value = tirx.reinterpret(f"{WORD}x{size}", neighbours_of(at(word), size * depth))
                    ir.buffer_store(kept, value, [tirx.Ramp(word, 1, size) if size > 1 else word])

    def _in_line(self, at: Callable[[int], TensorLoad]) -> bool:
        """Return whether the inputs of all columns are one behind the other in memory."""
        columns = [at(column * self.per_column) for column in range(self.tile.columns)]
        return all(self._adjoin(*pair) for pair in pairwise(columns))

    def _adjoin(self, one: TensorLoad, other: TensorLoad) -> bool:
        """Return whether the inputs of one column end where those of another begin."""
        return bool(self.tile.nest.analyzer.can_prove_equal(distance_between(one, other), self.channels))

    def _by_weights(self, source: Source, weight: Weight) -> None:
        """Emit the products with all weights in registers, and the inputs of one column after the other."""
        nest, tile, lanes = self.tile.nest, self.tile, self.tile.instruction.lanes
        depth, shape = self.products.depth, (self.channels * lanes,)
        kept = [nest.local(shape, self.products.weights) for _ in range(tile.blocks)]
        for block, own in enumerate(kept):
            with nest.unroll(self.channels) as channel, nest.vector(lanes) as lane:
                ir.buffer_store(own, weight(channel, block, lane), [channel * lanes + lane])
        with nest.unroll(tile.columns) as column:
            x = nest.local((self.channels,), self.products.inputs)
            nest.load(x, 0, self.channels, partial(source, column))
            with nest.unroll(self.channels // depth) as step:
                tile.add(
                    column,
                    lambda k: x[step * depth + k],
                    lambda k, block, lane: kept[block][(step * depth + k) * lanes + lane],
                )

    @contextmanager
    def _steps(self) -> Iterator[Expr]:
        """Emit a loop over channels in steps of the depth, unrolled for inputs in registers."""
        count = self.channels // self.products.depth
        if count == 1:
            yield tirx.IntImm("int32", 0)
            return
        with (self.tile.nest.serial if self.kept is None else self.tile.nest.unroll)(count) as step:
            yield step
