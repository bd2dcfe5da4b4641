"""A warp's sums by tensor cores: products of 16 output channels x 8 input channels by 8 places.

Lanes of a warp hold pieces of the matrices, as lowering/dialects/warp.cuh describes them. Weights lie in
memory as lanes hold them; an input's four channels lie together, which is what lanes need, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.implicit_gemm.choice import CHANNELS, DEPTH, PLACES, WARP
from toolchain.backends.packed.algorithms.implicit_gemm.item import Item
from toolchain.backends.packed.recognise.read import Expr

_QUAD = 4  # lanes t of a group of lanes g: lane = 4 g + t
_WEIGHTS, _INPUTS, _SUMS = 4, 2, 4  # numbers of each that a lane holds


class TensorCores:
    """Sums of `blocks` x `columns` products of a warp."""

    def __init__(self, item: Item) -> None:
        self.item, self.nest, self.choice, self.lanes = item, item.nest, item.choice, item.lanes
        across, along = self.choice.tile
        warp = self.nest.simplify(item.number // WARP)
        self.group = self.nest.simplify(item.number % WARP // _QUAD)
        self.quad = self.nest.simplify(item.number % _QUAD)
        self.across = self.nest.simplify(warp % across)
        self.along = self.nest.simplify(warp // across % along)
        self.slice = self.nest.simplify(warp // (across * along))
        self.channels = self.choice.channels(self.lanes)
        self.sums = self.nest.local((self.choice.blocks * self.choice.columns * _SUMS,), "float32")
        with self.nest.unroll(self.choice.blocks * self.choice.columns * _SUMS) as place:
            ir.buffer_store(self.sums, tirx.const(0, "float32"), [place])

    def loops(self, steps: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit a loop over steps around `add`; yield the step."""
        return self.nest.grid([steps])

    def add(self, weights: Expr, values: Expr) -> None:
        """Emit the products of this warp's units of a step, two at a time."""
        for turn in range(self.item.own * self.lanes // DEPTH):
            self._add_pair(weights, values, self.nest.simplify(self.slice * (self.item.own // 2) + turn))

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

    def _add_pair(self, weights: Expr, values: Expr, pair: Expr) -> None:
        """Emit the products of two units."""
        choice, shared = self.choice, self.item.shared
        inputs = self.nest.local((choice.columns * _INPUTS,), "float32")
        for column in range(choice.columns):
            place = (column * choice.tile[1] + self.along) * PLACES + self.group
            for half in range(_INPUTS):
                at = values + ((pair * _INPUTS + half) * choice.places + place) * self.lanes + self.quad
                ir.buffer_store(inputs, shared[self.nest.simplify(at)], [column * _INPUTS + half])
        theirs = self._parts(inputs)
        for block in range(choice.blocks):
            product = pair * (self.channels // CHANNELS) + block * choice.tile[0] + self.across
            at = self.nest.simplify(weights + (product * WARP + self.group * _QUAD + self.quad) * _WEIGHTS)
            own = self.nest.local((_WEIGHTS,), "float32")
            self.nest.load(own, 0, _WEIGHTS, partial(self._shared_at, at))
            mine = self._parts(own)
            for column in range(choice.columns):
                self._multiply(block * choice.columns + column, mine, theirs, column * _INPUTS)

    def _shared_at(self, first: Expr, place: Expr) -> Expr:
        return self.item.shared[first + place]

    def _parts(self, numbers: tirx.Buffer) -> list[tirx.Buffer]:
        """Round numbers to tfloat32; return them, and what was rounded off if that counts, too."""
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
            ir.evaluate(tirx.call_extern("int32", "edge_mma_m16n8k8_tf32", *addresses))


def _rounded(value: Expr) -> Expr:
    rounded: Expr = tirx.call_extern("float32", "edge_tf32", value)
    return rounded
