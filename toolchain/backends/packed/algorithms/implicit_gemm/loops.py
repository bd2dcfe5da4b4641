"""Convolution as a matrix product: (output channels, units) by (units, output places), in tiles.

A group of work items computes a tile of output blocks x places. Step by step it copies the weights and inputs
of some units to shared memory, where all its items read them, while those of later steps are on their way.
The items' sums meet in shared memory: there slices are added up, and items store outputs that lie together.

Where a network's tiles are too few for a GPU's units, several groups share a tile, each with a part of the
units. They store their partial sums in memory; the last one to arrive adds them up in a fixed order, so that
results do not depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.item import Item, ItemSums
from toolchain.backends.packed.algorithms.implicit_gemm.multiply_adds import MultiplyAdds
from toolchain.backends.packed.algorithms.implicit_gemm.steps import steps_of
from toolchain.backends.packed.algorithms.implicit_gemm.tensor_cores import TensorCores
from toolchain.backends.packed.algorithms.implicit_gemm.weight import weight_shape
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.emitter import Emitter
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.work_group import (
    COPIED,
    WORD,
    await_copies,
    barrier,
    copy_vector,
    end_copies,
    last_to_arrive,
    shared_memory,
    work_groups,
)
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.pieces import places
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Expr, Read


def implicit_gemm(
    read: Read, conv: Convolution, choice: ImplicitGemmChoice, layouts: Layouts, machine: Machine
) -> tirx.PrimFunc:
    """Return the packed function of a convolution without groups, epilogue included."""

    def body(nest: Nest) -> None:
        emitter = Emitter(nest, read, conv, layouts, weight_shape(conv, choice, machine.lanes))
        _ImplicitGemm(emitter, conv, choice).emit()

    return build(machine, body)


def shared_words(choice: ImplicitGemmChoice, lanes: int) -> int:
    """Return how many words of shared memory a group has: for copies of steps, and then for sums."""
    return max(choice.stages * _of_step(choice, lanes), choice.slices * _of_sums(choice, lanes))


def _of_step(choice: ImplicitGemmChoice, lanes: int) -> int:
    return _words(choice, choice.depth * lanes * (choice.channels(lanes) + choice.places))


def _words(choice: ImplicitGemmChoice, factors: int) -> int:
    return factors * choice.factor // WORD


def _of_sums(choice: ImplicitGemmChoice, lanes: int) -> int:
    return choice.channels(lanes) * choice.places


class _ImplicitGemm:
    def __init__(self, emitter: Emitter, conv: Convolution, choice: ImplicitGemmChoice) -> None:
        self.emitter, self.conv, self.choice = emitter, conv, choice
        self.nest, self.analyzer, self.lanes = emitter.nest, emitter.analyzer, emitter.lanes
        self.steps = steps_of(conv, choice, self.lanes)
        self.space = [conv.batch, *conv.out]
        self.tiles = -(-prod(self.space) // choice.places), int(emitter.weight.shape[0])
        self.sums = _of_sums(choice, self.lanes)
        self.vectors = self.sums // self.lanes

    def emit(self) -> None:
        """Emit the kernel."""
        choice = self.choice
        partial: tirx.Buffer | None = None
        if choice.splits > 1:
            partial = self.nest.shared((prod(self.tiles), choice.splits, self.sums), "float32")
        with work_groups(self.nest, [*self.tiles, choice.splits], choice.items) as (group, self.item):
            self.first = self.nest.simplify(group[0] * choice.places)
            self.row, self.split = group[1], group[2]
            self.shared = shared_memory(shared_words(choice, self.lanes), "float32")
            sums = self._products(Item(self.nest, choice, self.item, self.shared))
            barrier()
            sums.leave()
            barrier()
            if partial is None:
                self._each(
                    lambda vector: self._store(vector, self._added(self._in_shared, vector, choice.slices))
                )
            else:
                self._meet(partial, self.nest.simplify(group[1] * self.tiles[0] + group[0]))

    def _products(self, item: Item) -> ItemSums:
        """Emit the sums of this group's units; return the item's."""
        choice, each, stages = self.choice, self.steps.each, self.choice.stages
        sums: ItemSums
        if choice.on_tensor_cores:
            sums = TensorCores(item)
        else:
            sums = MultiplyAdds(item, each * item.own * self.lanes)
        for early in range(stages - 1):
            if early < each:
                at = tirx.const(early, "int32")
                self._copy(at, at)
            end_copies()
        with sums.loops(each) as (step,):
            await_copies(stages - 2)
            barrier()
            ahead = self.nest.simplify(step + (stages - 1))
            if each >= stages:
                with self.nest.when(ahead < each):
                    self._copy(ahead, self.nest.simplify(ahead % stages))
            end_copies()
            weights = self.nest.simplify(step % stages * _of_step(choice, self.lanes))
            sums.add(weights, weights + self._of_weights())
        await_copies(0)
        return sums

    def _copy(self, step: Expr, stage: Expr) -> None:
        """Emit the copies of a step's weights and inputs to their place in shared memory."""
        choice, lanes, emitter = self.choice, self.lanes, self.emitter
        start = self.nest.simplify(stage * _of_step(choice, lanes))
        first = self.nest.simplify((self.split * self.steps.each + step) * choice.depth)
        wide, factors = choice.channels(lanes), COPIED // choice.factor

        def weights(vector: Expr) -> None:
            unit, channel, block = places(vector, [choice.depth, lanes, wide // factors], self.analyzer)
            source = emitter.weight[self.row, first + unit, channel, block * factors]
            copy_vector(self.shared[start + vector * (COPIED // WORD)], source)

        def inputs(vector: Expr) -> None:
            unit, place = places(vector, [choice.depth, choice.places], self.analyzer)
            at = self.nest.simplify(first + unit)
            inside = at < self.steps.units if self.steps.padded > self.steps.units else None
            to = self.shared[start + self._of_weights() + vector * _words(choice, lanes)]
            copy_vector(to, self._input(at, place), inside, lanes * choice.factor)

        self._in_turns(choice.depth * lanes * wide // factors, weights)
        self._in_turns(choice.depth * choice.places, inputs)

    def _of_weights(self) -> int:
        return _words(self.choice, self.choice.depth * self.lanes * self.choice.channels(self.lanes))

    def _input(self, unit: Expr, place: Expr) -> Expr:
        """Return the first input of a unit for a place of the tile; later places read the last one's."""
        conv, analyzer = self.conv, self.analyzer
        last = prod(self.space) - 1
        n, *out = places(self.nest.simplify(tirx.min(self.first + place, last)), self.space, analyzer)
        tap, block = (
            self.nest.simplify(unit // self.steps.blocks),
            self.nest.simplify(unit % self.steps.blocks),
        )
        taps = places(tap, conv.kernel, analyzer)
        spatial = [
            analyzer.simplify(at * stride + tap * dilation + origin)
            for at, stride, tap, dilation, origin in zip(
                out, conv.stride, taps, conv.dilation, self.emitter.origin, strict=True
            )
        ]
        return self.emitter.x[(n, block, *spatial, 0)]

    def _in_turns(self, count: int, emit: Callable[[Expr], None]) -> None:
        """Emit code for `count` things, which the group's items share out."""
        items = self.choice.items
        whole = count // items
        with self.nest.unroll(whole) as turn:
            emit(self.nest.simplify(turn * items + self.item))
        if rest := count - whole * items:
            with self.nest.when(self.item < rest), self.analyzer.constraint_scope(self.item < rest):
                emit(self.nest.simplify(self.item + whole * items))

    def _each(self, emit: Callable[[Expr], None]) -> None:
        """Emit code for each vector of the tile's sums."""
        self._in_turns(self.vectors, emit)

    def _in_shared(self, slice_: int, index: Expr) -> Expr:
        return self.shared[slice_ * self.sums + index]

    def _added(self, source: Callable[[int, Expr], Expr], vector: Expr, parts: int) -> tirx.Buffer:
        """Emit the sum of a vector's parts; return it."""
        lanes = self.lanes
        total = self.nest.local((lanes,), "float32")
        for part in range(parts):
            with self.nest.vector(lanes) as lane:
                value = source(part, self.nest.simplify(vector * lanes + lane))
                ir.buffer_store(total, value if part == 0 else total[lane] + value, [lane])
        return total

    def _meet(self, partial: tirx.Buffer, number: Expr) -> None:
        """Emit the store of this group's sums, and the outputs if it is the last one of its tile."""

        def leave(vector: Expr) -> None:
            total = self._added(self._in_shared, vector, self.choice.slices)
            with self.nest.vector(self.lanes) as lane:
                ir.buffer_store(partial, total[lane], [number, self.split, vector * self.lanes + lane])

        def left(split: int, index: Expr) -> Expr:
            return partial[number, split, index]

        self._each(leave)
        with self.nest.when(last_to_arrive(self.nest, number, self.choice.splits)):
            self._each(lambda vector: self._store(vector, self._added(left, vector, self.choice.splits)))

    def _store(self, vector: Expr, total: tirx.Buffer) -> None:
        """Emit the outputs of a vector of sums, and their share of the zeros around the output."""
        choice, conv, lanes = self.choice, self.conv, self.lanes
        across = choice.channels(lanes) // lanes
        block, place = places(vector, [across, choice.places], self.analyzer)
        block = self.nest.simplify(self.row * across + block)
        place = self.nest.simplify(self.first + place)
        blocks = -(-conv.co // lanes)
        inside = [
            condition
            for condition in (block < blocks, place < prod(self.space))
            if not self.analyzer.can_prove(condition)
        ]
        with self.nest.when(tirx.all(*inside) if inside else None):
            n, *out = places(place, self.space, self.analyzer)
            with self.nest.vector(lanes) as lane:
                self.emitter.store(total[lane], [n, block * lanes + lane, *out])
            self.emitter.zero_halo_of_tile(n, block, out[:-1], out[-1], 1)
