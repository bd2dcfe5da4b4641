"""The choices of `implicit-gemm`, ordered by their estimated cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

from toolchain.backends.packed.algorithms.implicit_gemm.choice import (
    CHANNELS,
    PLACES,
    Arithmetic,
    ImplicitGemmChoice,
)
from toolchain.backends.packed.algorithms.implicit_gemm.cost import cost, registers
from toolchain.backends.packed.algorithms.implicit_gemm.loops import shared_words
from toolchain.backends.packed.algorithms.implicit_gemm.steps import steps_of
from toolchain.backends.packed.loops.work_group import ARRIVALS, WARP, WORD
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

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
