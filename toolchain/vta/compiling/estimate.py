"""Estimates the cycles of a convolution for each way to cut it, and ranks the ways.

The cycle model in `edge-rt vta` is the reference. This is a formula with the same constants, which estimates
thousands of cuts in the time that the model needs for one program.
"""

from __future__ import annotations

from functools import lru_cache

from toolchain.errors import UsageError
from toolchain.vta.compiling.order import channels_first, input_cycles, traffic, weight_cycles
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.layers.knobs import Knobs
from toolchain.vta.layers.layer import ConvShape
from toolchain.vta.layers.packing import blocks_of

_PASSES = 4  # passes of the ALU: bias, shift, two clips


def estimated_cycles(cut: Tiling) -> int:
    """Estimate the cycles of a layer in the cycle model."""
    model, knobs = cut.config.cycles, cut.knobs
    each = model.overhead + model.pipeline
    gemm = cut.gemms * each + cut.shape.taps * knobs.tile_ci * cut.vectors * model.gemm_step
    reset = each + cut.vectors * model.gemm_step
    after = _PASSES * (each + cut.vectors * model.alu_step)
    if cut.residual:
        pieces = knobs.tile_co // cut.residual_blocks
        reset += pieces * each + cut.vectors * model.gemm_step + each + cut.vectors * model.alu_step
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
    return [each for each in range(1, number + 1) if number % each == 0]
