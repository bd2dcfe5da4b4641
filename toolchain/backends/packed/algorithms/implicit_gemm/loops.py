"""Convolution as a matrix product: (output channels, units) by (units, output places), in tiles.

A group of work items computes a tile of output blocks x places. Step by step it copies the weights and inputs
of some units to shared memory, where all its items read them, while those of later steps are on their way.
The items' sums meet in shared memory: there slices are added up, and items store outputs that lie together.

Where a network's tiles are too few for a GPU's units, several groups share a tile, each with a part of the
units. They store their partial sums in memory; the last one to arrive adds them up in a fixed order, so that
results do not depend on the order of arrival.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.algorithms.implicit_gemm.choice import (
    ImplicitGemmChoice,
    Steps,
    steps_of,
    weight_shape,
)
from toolchain.backends.packed.algorithms.implicit_gemm.tensor_cores import (
    ItemSums,
    MultiplyAdds,
    TensorCores,
    WorkItem,
)
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
    halves_of,
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


class TiledProduct(ABC):
    """A product of matrices in tiles, each of which a work group computes in shared memory.

    Parameters
    ----------
    steps
        The steps of a group.
    tiles
        Number of tiles along output places, and along output channels.
    batch
        Number of products.
    """

    def __init__(
        self, nest: Nest, choice: ImplicitGemmChoice, steps: Steps, tiles: tuple[int, int], batch: int = 1
    ) -> None:
        self.nest, self.choice, self.steps, self.tiles, self.batch = nest, choice, steps, tiles, batch
        self.analyzer, self.lanes = nest.analyzer, nest.machine.lanes
        self.sums = _of_sums(choice, self.lanes)
        self.vectors = self.sums // self.lanes

    def emit(self) -> None:
        """Emit the kernel."""
        choice = self.choice
        partial: tirx.Buffer | None = None
        if choice.splits > 1:
            count = self.batch * prod(self.tiles)
            partial = self.nest.shared((count, choice.splits, self.sums), "float32")
        grid = [*self.tiles, choice.splits * self.batch]
        with work_groups(self.nest, grid, choice.items) as (group, self.item):
            self.first = self.nest.simplify(group[0] * choice.places)
            self.row, self.split = group[1], self.nest.simplify(group[2] % choice.splits)
            self.product = self.nest.simplify(group[2] // choice.splits)
            self.shared = shared_memory(shared_words(choice, self.lanes), "float32")
            self.factors = halves_of(self.shared) if choice.arithmetic == "f16" else self.shared
            sums = self._products(WorkItem(self.nest, choice, self.item, self.shared))
            barrier()
            sums.leave()
            barrier()
            if partial is None:
                self._each(
                    lambda vector: self._store(vector, self._added(self._in_shared, vector, choice.slices))
                )
            else:
                number = (self.product * self.tiles[1] + group[1]) * self.tiles[0] + group[0]
                self._meet(partial, self.nest.simplify(number))

    def _products(self, item: WorkItem) -> ItemSums:
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
        choice, lanes = self.choice, self.lanes
        start = self.nest.simplify(stage * _of_step(choice, lanes))
        first = self.nest.simplify((self.split * self.steps.each + step) * choice.depth)
        self.copy_weights(start, first)
        self.copy_inputs(self.nest.simplify(start + self._of_weights()), first)

    def _of_weights(self) -> int:
        return _words(self.choice, self.choice.depth * self.lanes * self.choice.channels(self.lanes))

    @abstractmethod
    def copy_weights(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's weights to shared memory: (units, 4 inputs, output channels).

        Parameters
        ----------
        start
            Where they begin in shared memory.
        first
            First unit of the step.
        """

    @abstractmethod
    def copy_inputs(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's inputs to shared memory: (units, output places, 4 inputs)."""

    def copy_packed(self, start: Expr, first: Expr, weight: Callable[[Expr, Expr, Expr], Expr]) -> None:
        """Emit the copies of a step's packed weights.

        Parameters
        ----------
        weight
            Returns a weight, given its unit, input and output channel in the tile.
        """
        depth, lanes, factors = self.choice.depth, self.lanes, COPIED // self.choice.factor
        vectors = self.choice.channels(lanes) // factors

        def copy(vector: Expr) -> None:
            unit, channel, block = places(vector, [depth, lanes, vectors], self.analyzer)
            to = self.shared[start + vector * (COPIED // WORD)]
            copy_vector(to, weight(first + unit, channel, block * factors))

        self.in_turns(depth * lanes * vectors, copy)

    @abstractmethod
    def inside(self, block: Expr, place: Expr) -> tuple[Expr, Expr]:
        """Return whether a block of output channels exists, and whether a place does."""

    @abstractmethod
    def store(self, block: Expr, place: Expr, total: tirx.Buffer) -> None:
        """Emit the outputs of a vector of sums, of a block of output channels that exists at a place."""

    def in_turns(self, count: int, emit: Callable[[Expr], None]) -> None:
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
        self.in_turns(self.vectors, emit)

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
        """Emit the outputs of a vector of sums, if they exist."""
        across = self.choice.channels(self.lanes) // self.lanes
        block, place = places(vector, [across, self.choice.places], self.analyzer)
        block = self.nest.simplify(self.row * across + block)
        place = self.nest.simplify(self.first + place)
        inside = [each for each in self.inside(block, place) if not self.analyzer.can_prove(each)]
        with self.nest.when(tirx.all(*inside) if inside else None):
            self.store(block, place, total)


class _ImplicitGemm(TiledProduct):
    def __init__(self, emitter: Emitter, conv: Convolution, choice: ImplicitGemmChoice) -> None:
        self.emitter, self.conv, self.space = emitter, conv, [conv.batch, *conv.out]
        tiles = -(-prod(self.space) // choice.places), int(emitter.weight.shape[0])
        super().__init__(emitter.nest, choice, steps_of(conv, choice, emitter.lanes), tiles)

    def inside(self, block: Expr, place: Expr) -> tuple[Expr, Expr]:
        """Return whether a block of output channels exists, and whether a place does."""
        return block < -(-self.conv.co // self.lanes), place < prod(self.space)

    def copy_weights(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's weights."""
        weight = self.emitter.weight
        self.copy_packed(start, first, lambda unit, k, channel: weight[self.row, unit, k, channel])

    def copy_inputs(self, start: Expr, first: Expr) -> None:
        """Emit the copies of a step's inputs."""
        choice = self.choice

        def copy(vector: Expr) -> None:
            unit, place = places(vector, [choice.depth, choice.places], self.analyzer)
            at = self.nest.simplify(first + unit)
            inside = at < self.steps.units if self.steps.padded > self.steps.units else None
            to = self.shared[start + vector * _words(choice, self.lanes)]
            copy_vector(to, self._input(at, place), inside, self.lanes * choice.factor)

        self.in_turns(choice.depth * choice.places, copy)

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

    def store(self, block: Expr, place: Expr, total: tirx.Buffer) -> None:
        """Emit the outputs of a vector of sums, and their share of the zeros around the output."""
        n, *out = places(place, self.space, self.analyzer)
        with self.nest.vector(self.lanes) as lane:
            self.emitter.store(total[lane], [n, block * self.lanes + lane, *out])
        self.emitter.zero_halo_of_tile(n, block, out[:-1], out[-1], 1)
