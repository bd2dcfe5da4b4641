"""Orders the pieces of a convolution so that few operands are loaded more than once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.cycles import CycleModel


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
