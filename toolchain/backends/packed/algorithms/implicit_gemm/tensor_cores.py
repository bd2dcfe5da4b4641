"""A warp's sums by tensor cores: products of 16 output channels x some units by 8 places.

Lanes of a warp hold pieces of the matrices, as lowering/dialects/warp.cuh describes them. Weights lie in
memory as lanes hold them; an input's four channels lie together, which is what lanes need, too. Shared memory
consists of words of 32 bits: a float32, or two float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.implicit_gemm.choice import CHANNELS, PLACES, ImplicitGemmChoice
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.loops.work_group import WARP
from toolchain.backends.packed.recognise.read import Expr

# The work item of an implicit GEMM: its place in its group, and who adds up its sums.


@dataclass(frozen=True)
class WorkItem:
    """A work item: its number in the group, and the group's shared memory."""

    nest: Nest
    choice: ImplicitGemmChoice
    number: Expr
    shared: tirx.Buffer

    @property
    def lanes(self) -> int:
        """Channels of a block."""
        return self.nest.machine.lanes

    @property
    def own(self) -> int:
        """Units of a step that an item adds up."""
        return self.choice.depth // self.choice.slices


class ItemSums(Protocol):
    """The sums of an item."""

    def loops(self, steps: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit a loop over steps around `add`; yield the step."""

    def add(self, weights: Expr, values: Expr) -> None:
        """Emit the products of this item's units of a step, whose weights and values begin there."""

    def leave(self) -> None:
        """Emit stores of the sums to shared memory: (slices, output blocks, places, lanes)."""


# An item's sums by multiply-adds: it reads blocks of weights and inputs as vectors.


class MultiplyAdds:
    """Sums of `blocks` x `columns`; items beside each other have sums beside each other."""

    def __init__(self, item: WorkItem, products: int) -> None:
        self.item, self.nest, self.choice, self.lanes = item, item.nest, item.choice, item.lanes
        across, along = self.choice.tile
        self.across = self.nest.simplify(item.number % across)
        self.along = self.nest.simplify(item.number // across % along)
        self.slice = self.nest.simplify(item.number // (across * along))
        self.blocks = self.choice.channels(self.lanes) // self.lanes
        instruction = self.nest.machine.instruction("float32")
        self.tile = Tile(self.nest, instruction, self.choice.blocks, self.choice.columns, products, "weights")
        self.inputs = self.tile.inputs(self.lanes)

    def loops(self, steps: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit a loop over steps around `add`; yield the step."""
        return self.tile.loops([steps], self.item.own * self.lanes)

    def add(self, weights: Expr, values: Expr) -> None:
        """Emit the products of this item's units of a step."""
        choice, lanes, shared = self.choice, self.lanes, self.item.shared
        with self.nest.unroll(self.item.own) as turn:
            unit = self.nest.simplify(self.slice * self.item.own + turn)
            weights_of = weights + unit * (lanes * self.blocks * lanes)
            values_of = values + unit * (choice.places * lanes)

            def source(column: Expr, channel: Expr) -> Expr:
                return shared[values_of + (column * choice.tile[1] + self.along) * lanes + channel]

            def weight(channel: Expr, number: int, lane: Expr) -> Expr:
                block = channel * self.blocks + number * choice.tile[0] + self.across
                return shared[weights_of + block * lanes + lane]

            self.inputs.multiply(source, weight)

    def leave(self) -> None:
        """Emit stores of the sums to shared memory."""
        choice, lanes = self.choice, self.lanes
        for number, total in enumerate(self.tile.totals):
            with self.nest.unroll(choice.columns) as column, self.nest.vector(lanes) as lane:
                block = self.slice * self.blocks + number * choice.tile[0] + self.across
                place = column * choice.tile[1] + self.along
                vector = self.nest.simplify(block * choice.places + place)
                ir.buffer_store(self.item.shared, total[column * lanes + lane], [vector * lanes + lane])


_QUAD = 4  # lanes t of a group of lanes g: lane = 4 g + t
_WEIGHTS, _INPUTS, _SUMS = 4, 2, 4  # words of each that a lane holds


class TensorCores:
    """Sums of `blocks` x `columns` products of a warp."""

    def __init__(self, item: WorkItem) -> None:
        self.item, self.nest, self.choice, self.lanes = item, item.nest, item.choice, item.lanes
        across, along = self.choice.tile
        warp = self.nest.simplify(item.number // WARP)
        self.group = self.nest.simplify(item.number % WARP // _QUAD)
        self.quad = self.nest.simplify(item.number % _QUAD)
        self.across = self.nest.simplify(warp % across)
        self.along = self.nest.simplify(warp // across % along)
        self.slice = self.nest.simplify(warp // (across * along))
        self.channels = self.choice.channels(self.lanes)
        half = self.choice.arithmetic == "f16"
        self.instruction = "edge_mma_m16n8k16_f16_bits" if half else "edge_mma_m16n8k8_tf32"
        self.sums = self.nest.local((self.choice.blocks * self.choice.columns * _SUMS,), "float32")
        with self.nest.unroll(self.choice.blocks * self.choice.columns * _SUMS) as place:
            ir.buffer_store(self.sums, tirx.const(0, "float32"), [place])

    def loops(self, steps: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit a loop over steps around `add`; yield the step."""
        return self.nest.grid([steps])

    def add(self, weights: Expr, values: Expr) -> None:
        """Emit the products of this warp's units of a step."""
        turns = self.item.own // self.choice.at_once
        for turn in range(turns):
            self._add_product(weights, values, self.nest.simplify(self.slice * turns + turn))

    def leave(self) -> None:
        """Emit stores of the sums to shared memory."""
        choice, lanes = self.choice, self.lanes
        for number in range(choice.blocks * choice.columns):
            block, column = divmod(number, choice.columns)
            for own in range(_SUMS):
                channel = (
                    (block * choice.tile[0] + self.across) * CHANNELS
                    + self.group
                    + own // 2 * (CHANNELS // 2)
                )
                place = (column * choice.tile[1] + self.along) * PLACES + self.quad * 2 + own % 2
                row = self.slice * (self.channels // lanes) + channel // lanes
                at = self.nest.simplify((row * choice.places + place) * lanes + channel % lanes)
                ir.buffer_store(self.item.shared, self.sums[number * _SUMS + own], [at])

    def _add_product(self, weights: Expr, values: Expr, number: Expr) -> None:
        """Emit the products of as many units as tensor cores take at once."""
        choice, shared = self.choice, self.item.shared
        inputs = self.nest.local((choice.columns * _INPUTS,), "float32")
        for column in range(choice.columns):
            place = (column * choice.tile[1] + self.along) * PLACES + self.group
            for half in range(_INPUTS):
                at = self.nest.simplify(values + self._input(number, half, place))
                ir.buffer_store(inputs, shared[at], [column * _INPUTS + half])
        theirs = self._parts(inputs)
        for block in range(choice.blocks):
            product = number * (self.channels // CHANNELS) + block * choice.tile[0] + self.across
            at = self.nest.simplify(weights + (product * WARP + self.group * _QUAD + self.quad) * _WEIGHTS)
            own = self.nest.local((_WEIGHTS,), "float32")
            self.nest.load(own, 0, _WEIGHTS, partial(self._shared_at, at))
            mine = self._parts(own)
            for column in range(choice.columns):
                self._multiply(block * choice.columns + column, mine, theirs, column * _INPUTS)

    def _input(self, number: Expr, half: int, place: Expr) -> Expr:
        """Return the place of a word of inputs, of the first or second half of a product's units."""
        if self.choice.arithmetic == "f16":  # two words of a block of four channels
            unit = (number * _INPUTS + half) * 2 + self.quad // 2
            return (unit * self.choice.places + place) * 2 + self.quad % 2
        return ((number * _INPUTS + half) * self.choice.places + place) * self.lanes + self.quad

    def _shared_at(self, first: Expr, place: Expr) -> Expr:
        return self.item.shared[first + place]

    def _parts(self, numbers: tirx.Buffer) -> list[tirx.Buffer]:
        """Return numbers rounded to tfloat32, and what was rounded off if that counts; float16 as it is."""
        if self.choice.arithmetic == "f16":
            return [numbers]
        count = int(numbers.shape[0])
        parts = [
            self.nest.local((count,), "float32")
            for _ in range(2 if self.choice.arithmetic == "3xtf32" else 1)
        ]
        for place in range(count):
            ir.buffer_store(parts[0], _rounded(numbers[place]), [place])
            for rest in parts[1:]:
                ir.buffer_store(rest, _rounded(numbers[place] - parts[0][place]), [place])
        return parts

    def _multiply(
        self, number: int, weights: list[tirx.Buffer], inputs: list[tirx.Buffer], first: int
    ) -> None:
        """Emit a product. Of factors in two parts, the product of the small parts is too small to count."""
        for one, other in [(1, 0), (0, 1), (0, 0)] if len(weights) > 1 else [(0, 0)]:
            places = ((self.sums, number * _SUMS), (weights[one], 0), (inputs[other], first))
            addresses = [tirx.address_of(buffer[place]) for buffer, place in places]
            ir.evaluate(tirx.call_extern("int32", self.instruction, *addresses))


def place_of_half(unit: Expr, channel: Expr, column: Expr, wide: int) -> Expr:
    """Return the place of a float16 weight among those of a step, as `weight.pack_weight` orders constants.

    Parameters
    ----------
    unit, channel, column
        Unit of the step, input channel of the unit, output channel of a tile of `wide`.
    """
    product = unit // 4 * (wide // CHANNELS) + column // CHANNELS
    k = unit % 4 * 4 + channel  # inner place in the product: 8 of them in a half, pairs are a word
    lane = column % (CHANNELS // 2) * _QUAD + k % 8 // 2
    word = k // 8 * 2 + column % CHANNELS // (CHANNELS // 2)
    return ((product * WARP + lane) * _WEIGHTS + word) * 2 + k % 2


def _rounded(value: Expr) -> Expr:
    rounded: Expr = tirx.call_extern("float32", "edge_tf32", value)
    return rounded
