"""Estimates the cycles of a convolution for each way to cut it, and ranks the ways.

The cycle model in `edge-rt vta` is the reference. This is a formula with the same constants, which estimates
thousands of cuts in the time that the model needs for one program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from toolchain.errors import UsageError
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design import CycleModel, VtaConfig
from toolchain.vta.layers.layer import ConvShape, blocks_of
from toolchain.vta.layers.region import Knobs

# Orders the pieces of a convolution so that few operands are loaded more than once.


@dataclass(frozen=True)
class Piece:
    """A piece of the result.

    Attributes
    ----------
    context
        Index among the pieces that are computed alternately (virtual threads).
    co, y, x
        Its first block of channels, row and column.
    """

    context: int
    co: int
    y: int
    x: int


@dataclass(frozen=True)
class Traffic:
    """Number of loads of tiles of inputs, and of tiles of weights."""

    inputs: int
    weights: int


def traffic(cut: Tiling, channels_first: bool) -> Traffic:
    """Return how many tiles of operands are loaded in a layer.

    Parameters
    ----------
    channels_first
        Whether all pieces of some output channels come before those of others.
    """
    knobs, shape = cut.knobs, cut.shape
    channels = cut.oc_blocks // knobs.tile_co // knobs.oc_nthread
    places = shape.oh // knobs.tile_h // knobs.h_nthread * (shape.ow // knobs.tile_w)
    # An operand stays on the chip if its places can hold all chunks that are needed again; an operand that
    # contexts share has two places.
    if channels_first:
        inputs_stay = places * cut.chunks <= knobs.oc_nthread
        weights_stay = cut.chunks <= knobs.h_nthread
    else:
        inputs_stay = cut.chunks <= knobs.oc_nthread
        weights_stay = channels * cut.chunks <= knobs.h_nthread
    inputs = places * knobs.h_nthread * cut.chunks
    weights = channels * knobs.oc_nthread * cut.chunks
    if cut.residual or not inputs_stay:
        inputs *= channels
    if not weights_stay:
        weights *= places
    return Traffic(inputs, weights)


def input_cycles(cut: Tiling, model: CycleModel) -> int:
    """Estimate the cycles of DMA for a tile of inputs."""
    knobs, shape = cut.knobs, cut.shape
    element = cut.config.block
    columns = min(cut.columns, shape.w)
    rows = min(cut.rows, shape.h)
    moved = -(-knobs.tile_ci * rows * columns * element // model.bus_bytes)
    if cut.columns == shape.w and cut.row_step == 1 and not (shape.ph or shape.pw):
        return model.overhead + knobs.tile_ci * model.dma_row + moved
    return knobs.tile_ci * (model.overhead + rows * model.dma_row) + moved


def weight_cycles(cut: Tiling, model: CycleModel) -> int:
    """Return the cycles of DMA for a tile of weights."""
    return model.overhead + model.dma_row + cut.wgt_elements * cut.config.block**2 // model.bus_bytes


def load_cycles(cut: Tiling, model: CycleModel, channels_first: bool) -> int:
    """Return the cycles of DMA for all operands of a layer."""
    times = traffic(cut, channels_first)
    return times.inputs * input_cycles(cut, model) + times.weights * weight_cycles(cut, model)


def channels_first(cut: Tiling, model: CycleModel) -> bool:
    """Return whether ordering pieces by output channels first needs no more DMA cycles than the reverse."""
    return load_cycles(cut, model, True) <= load_cycles(cut, model, False)


def groups(cut: Tiling, channels_first: bool) -> Iterator[tuple[Piece, ...]]:
    """Yield groups of pieces in the order of the program; the pieces of a group are computed in turns."""
    knobs, shape = cut.knobs, cut.shape
    co_step, y_step = knobs.tile_co * knobs.oc_nthread, knobs.tile_h * knobs.h_nthread
    channels = range(0, cut.oc_blocks, co_step)
    places = [(y, x) for y in range(0, shape.oh, y_step) for x in range(0, shape.ow, knobs.tile_w)]
    if channels_first:
        ordered = ((co, y, x) for co in channels for y, x in places)
    else:
        ordered = ((co, y, x) for y, x in places for co in channels)
    for co, y, x in ordered:
        yield tuple(
            Piece(
                context,
                co + (context * knobs.tile_co if knobs.oc_nthread > 1 else 0),
                y + (context * knobs.tile_h if knobs.h_nthread > 1 else 0),
                x,
            )
            for context in range(knobs.contexts)
        )


_PASSES = 4  # passes of the ALU: bias, shift, two clips


def estimated_cycles(cut: Tiling) -> int:
    """Estimate the cycles of a layer in the cycle model."""
    model, knobs = cut.config.cycles, cut.knobs
    fixed = model.overhead + model.pipeline
    gemm = cut.gemms * fixed + cut.shape.taps * knobs.tile_ci * cut.vectors * model.gemm_step
    reset = fixed + cut.vectors * model.gemm_step
    after = _PASSES * (fixed + cut.vectors * model.alu_step)
    if cut.residual:
        pieces = knobs.tile_co // cut.residual_blocks
        reset += pieces * fixed + cut.vectors * model.gemm_step + fixed + cut.vectors * model.alu_step
    pieces = cut.oc_blocks // knobs.tile_co * (cut.shape.oh // knobs.tile_h) * (cut.shape.ow // knobs.tile_w)
    times = traffic(cut, channels_first(cut, model))
    inputs, weights = input_cycles(cut, model), weight_cycles(cut, model)
    rows = 1 if knobs.tile_w == cut.shape.ow else knobs.tile_h
    moved = cut.vectors * cut.config.block // model.bus_bytes
    store = model.overhead + knobs.tile_co * rows * model.dma_row + moved
    loads = times.inputs * inputs + times.weights * weights
    if cut.residual:
        loads += pieces * store
    begin = inputs + weights
    if knobs.contexts == 1:
        computed = pieces * (cut.chunks * gemm + reset)
        return begin + loads + computed + pieces * max(after, store)
    # While pieces compute, the next chunk of input channels is loaded; never more than one ahead.
    turns = pieces // knobs.contexts
    run = loads // (turns * cut.chunks)
    computing = knobs.contexts * gemm
    between = knobs.contexts * (reset + after)
    turn = (cut.chunks - 1) * max(run, computing) + max(run, computing + between, knobs.contexts * store)
    return begin + turns * turn + store


def legal_knobs(shape: ConvShape, config: VtaConfig, residual: bool = False) -> list[Knobs]:
    """Return all legal knobs of a convolution, those with the fewest estimated cycles first."""
    return list(_ranked(shape, config, residual))


def default_knobs(shape: ConvShape, config: VtaConfig, residual: bool = False) -> Knobs:
    """Return the knobs with the fewest estimated cycles.

    Raises
    ------
    UsageError
        The convolution does not fit the configuration, however it is cut.
    """
    ranked = _ranked(shape, config, residual)
    if not ranked:
        smallest = Tiling(shape, Knobs(1, 1, 1, 1), config, residual)
        raise UsageError(f"convolution {shape} does not fit: {smallest.problem()}", "leave it to the CPU")
    return ranked[0]


@lru_cache(maxsize=256)
def _ranked(shape: ConvShape, config: VtaConfig, residual: bool) -> tuple[Knobs, ...]:
    timed = []
    for knobs in _all_knobs(shape, config):
        cut = Tiling(shape, knobs, config, residual)
        if not cut.problem():
            timed.append((estimated_cycles(cut), knobs))
    return tuple(knobs for _, knobs in sorted(timed))


def _all_knobs(shape: ConvShape, config: VtaConfig) -> list[Knobs]:
    threads = ((1, 1), (1, 2), (2, 1))
    return [
        Knobs(tile_h, tile_w, tile_ci, tile_co, oc_nthread, h_nthread)
        for tile_h in _divisors(shape.oh)
        for tile_w in _divisors(shape.ow)
        for tile_ci in _divisors(blocks_of(shape.ic, config.block))
        for tile_co in _divisors(blocks_of(shape.oc, config.block))
        for oc_nthread, h_nthread in threads
    ]


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
