"""An item's sums by multiply-adds: it reads blocks of weights and inputs as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.implicit_gemm.item import WorkItem
from toolchain.backends.packed.loops.tile import Tile
from toolchain.backends.packed.recognise.read import Expr


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
