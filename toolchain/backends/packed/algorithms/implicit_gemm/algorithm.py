"""The algorithm `implicit-gemm`: a convolution in tiles of a matrix product, in a GPU's shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Cost, PackedAlgorithm
from toolchain.backends.packed.algorithms.implicit_gemm.choice import (
    CHANNELS,
    PLACES,
    Arithmetic,
    ImplicitGemmChoice,
    pack_weight,
    steps_of,
)
from toolchain.backends.packed.algorithms.implicit_gemm.loops import implicit_gemm, shared_words
from toolchain.backends.packed.algorithms.launch import Launch, seconds
from toolchain.backends.packed.gpus import GpuRow
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.loops.work_group import ARRIVALS, WARP, WORD
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read

# The cost model of the algorithm `implicit-gemm`.

_OTHERS = 40  # registers of an item for addresses and counters
_PEAK = 0.85  # share of its peak that a unit reaches with all factors in registers
_LOADS = 2  # times that a load from shared memory takes, in those of a multiply-add
_LANES = 4  # numbers of a vector of float32
_CYCLES = 32  # of a scheduler for a product of tensor cores whose rate is that of multiply-adds
_ROUNDING = {"3xtf32": 3, "tf32": 1, "f16": 0}  # instructions that round a factor
_PARTS = {"3xtf32": 3, "tf32": 1, "f16": 1}  # products for one
_RATES = {"3xtf32": 1 / 3, "tf32": 1.0, "f16": 2.0}  # relative to products of tfloat32
_MEETING = 4  # waits of groups that share a tile: their partial sums, a counter, and the sums of the others


def cost(choice: ImplicitGemmChoice, conv: Convolution, machine: Machine, batch: int = 1) -> Cost:
    """Return the estimated cost of a convolution, or of `batch` products; the machine has a GPU."""
    gpu, lanes = machine.gpu, machine.lanes
    if gpu is None:
        raise ValueError(f"{machine.isa} is no GPU")
    steps = steps_of(conv, choice, lanes)
    wide, units = choice.channels(lanes), steps.each * choice.depth
    rows, columns = -(-conv.co // wide), -(-conv.batch * prod(conv.out) // choice.places)
    weights = rows * wide * steps.padded * lanes * choice.factor
    values = conv.batch * (conv.ci * prod(conv.size) + conv.co * prod(conv.out)) * choice.factor
    sums = wide * choice.places * WORD
    shared = choice.splits > 1
    launch = Launch(
        groups=batch * rows * columns * choice.splits,
        items=choice.items,
        registers=registers(choice, lanes),
        local=shared_words(choice, lanes) * WORD,
        operations=2 * units * lanes * wide * choice.places / _speed(choice, gpu),
        read=units * lanes * (wide + choice.places) * choice.factor + (2 * sums if shared else sums),
        waits=1 + steps.each / (choice.stages - 1) + (_MEETING if shared else 0),
        memory=batch * (weights + values),
    )
    return Cost(seconds(launch, gpu), batch * weights)


def _speed(choice: ImplicitGemmChoice, gpu: GpuRow) -> float:
    """Return the speed of the arithmetic relative to the unit's peak of float32.

    Instructions that load and round factors take their turns between the products: the more sums an item or a
    warp has, the more products share a factor.
    """
    blocks, columns, kind = choice.blocks, choice.columns, choice.arithmetic
    if kind == "fma":
        products, others = _LANES * _LANES * blocks * columns, _LOADS * (_LANES * blocks + columns)
        return _PEAK * products / (products + others)
    took = blocks * columns * _PARTS[kind] * _CYCLES / gpu.tensors
    others = blocks * (1 + 4 * _ROUNDING[kind]) + columns * 2 * (1 + _ROUNDING[kind])
    return _PEAK * took / (took + others) * gpu.tensors * _RATES[kind]


def registers(choice: ImplicitGemmChoice, lanes: int) -> int:
    """Return the estimated registers of an item: its sums, the weights of a unit, an input, addresses."""
    if choice.on_tensor_cores:  # both parts of a factor of 4 weights, and of 2 inputs for each column
        return 4 * choice.blocks * choice.columns + 2 * (4 + 2 * choice.columns) + _OTHERS
    return choice.blocks * lanes * (choice.columns + lanes) + lanes + _OTHERS


# The choices of `implicit-gemm`, ordered by their estimated cost.

_ITEMS = (32, 256)  # least and most work items of a group
_FEWEST = 64  # items of a group that is worth a try
MOST = 200
"""Most candidates of a task."""

_STEPS = ((4, 4), (8, 3), (8, 4), (16, 2), (16, 3))  # units of a step, and steps on their way
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
_REGISTERS = 128  # of an item, so that a group of 256 leaves room for another
_ARRIVAL = 16  # bytes of shared memory that `last_to_arrive` takes


def default(conv: Convolution, machine: Machine) -> ImplicitGemmChoice | None:
    """Return the choice with the lowest estimated cost; None if none is legal."""
    found = candidates(conv, machine)
    return found[0] if found else None


def candidates(conv: Convolution, machine: Machine) -> list[ImplicitGemmChoice]:
    """Return the choices that a tuner may measure, those with the lowest estimated cost first."""
    return [*_candidates(conv, machine)]


def legal(choice: ImplicitGemmChoice, conv: Convolution, machine: Machine) -> bool:
    """Return whether a choice fits the convolution, the registers and the shared memory."""
    numbers = (choice.blocks, choice.columns, *choice.tile, choice.slices, choice.splits, choice.depth)
    if min(numbers) < 1 or choice.stages < 2 or choice.group or choice.loads != "inputs":
        return False
    if choice.arithmetic not in _arithmetic(conv, machine) or choice.depth // choice.slices % choice.at_once:
        return False
    steps = steps_of(conv, choice, machine.lanes)
    wide = choice.channels(machine.lanes)
    tiles = -(-conv.co // wide) * -(-conv.batch * prod(conv.out) // choice.places)
    return (
        _ITEMS[0] <= choice.items <= min(_ITEMS[1], machine.group)
        and choice.items % WARP == 0
        and choice.depth % choice.slices == 0
        and (choice.splits - 1) * steps.each * choice.depth < steps.units
        and (choice.splits == 1 or tiles <= ARRIVALS)
        and registers(choice, machine.lanes) <= _REGISTERS
        and shared_words(choice, machine.lanes) * WORD + _ARRIVAL * (choice.splits > 1) <= machine.shared
    )


@lru_cache(maxsize=256)
def _candidates(conv: Convolution, machine: Machine) -> tuple[ImplicitGemmChoice, ...]:
    timed = [
        (cost(choice, conv, machine).seconds, number, choice)
        for number, choice in enumerate(choices(conv, machine))
        if legal(choice, conv, machine)
    ]
    return tuple(choice for _seconds, _number, choice in sorted(timed, key=lambda each: each[:2])[:MOST])


def _arithmetic(conv: Convolution, machine: Machine) -> tuple[Arithmetic, ...]:
    """Return the arithmetic that is as exact as the user asked for, the fastest first."""
    if conv.dtype == "float16":
        return ("f16",)
    return ("tf32", "3xtf32", "fma") if machine.rounds else ("3xtf32", "fma")


def choices(conv: Convolution, machine: Machine) -> Iterator[ImplicitGemmChoice]:
    """Yield choices, illegal ones too."""
    if conv.dtype == "float32":
        yield from _by_items(conv, machine)
    yield from _by_tensor_cores(conv, machine)


def _by_tensor_cores(conv: Convolution, machine: Machine) -> Iterator[ImplicitGemmChoice]:
    channels, places = conv.co, conv.batch * prod(conv.out)
    units = -(-conv.ci // machine.lanes) * prod(conv.kernel)
    arithmetic = _arithmetic(conv, machine)[0]
    for own, across, columns, along in product((1, 2), (1, 2, 4), (1, 2, 4), (1, 2, 4)):
        wide, high = own * across * CHANNELS, columns * along * PLACES
        if wide >= 2 * max(CHANNELS, channels) or high >= 2 * max(PLACES, places):
            continue
        tiles = -(-channels // wide) * -(-places // high)
        for slices, (depth, stages) in product((1, 2, 4, 8), _STEPS):
            if not _FEWEST <= across * along * slices * WARP <= _ITEMS[1] or depth % (4 * slices):
                continue
            for splits in _splits(tiles, machine):
                if splits == 1 or splits * depth <= units:
                    yield ImplicitGemmChoice(
                        own, columns, (across, along), slices, splits, depth, stages, arithmetic
                    )


def _by_items(conv: Convolution, machine: Machine) -> Iterator[ImplicitGemmChoice]:
    blocks, places = -(-conv.co // machine.lanes), conv.batch * prod(conv.out)
    units = -(-conv.ci // machine.lanes) * prod(conv.kernel)
    for own, across, columns, along in product((1, 2), (4, 8, 16), (2, 4, 7, 8), (2, 4, 7, 8, 16)):
        if own * across >= 2 * max(4, blocks) or columns * along >= 2 * max(8, places):
            continue
        tiles = -(-blocks // (own * across)) * -(-places // (columns * along))
        for slices, (depth, stages) in product((1, 2, 4, 8), _STEPS):
            items = across * along * slices
            if items % WARP or not _FEWEST <= items <= _ITEMS[1] or depth % slices:
                continue
            for splits in _splits(tiles, machine):
                if splits == 1 or splits * depth <= units:
                    yield ImplicitGemmChoice(own, columns, (across, along), slices, splits, depth, stages)


def _splits(tiles: int, machine: Machine) -> list[int]:
    """Return how many groups may share a tile: as many as give each unit of the GPU about one or two."""
    units = machine.gpu.units if machine.gpu else 1
    return [each for each in _SPLITS if each == 1 or tiles * each <= 3 * units]


class ImplicitGemm(PackedAlgorithm[Convolution, ImplicitGemmChoice]):
    """Convolution as a matrix product whose tiles a work group keeps in shared memory."""

    choice = ImplicitGemmChoice
    full_blocks = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a convolution of floats without groups, on a GPU."""
        return (
            machine.gpu is not None
            and isinstance(contraction, Convolution)
            and contraction.groups == 1
            and contraction.dtype in ("float32", "float16")
        )

    def default(self, contraction: Convolution, machine: Machine) -> ImplicitGemmChoice | None:
        """Return the choice with the lowest estimated cost."""
        return default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[ImplicitGemmChoice]:
        """Return the choices that a tuner may measure."""
        return candidates(contraction, machine)

    def legal(self, choice: ImplicitGemmChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the convolution, the registers and the shared memory."""
        return legal(choice, contraction, machine)

    def cost(self, choice: ImplicitGemmChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: ImplicitGemmChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        del input_lanes
        return pack_weight(value, contraction, choice, machine.lanes)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: ImplicitGemmChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return implicit_gemm(read, contraction, choice, layouts, machine)
