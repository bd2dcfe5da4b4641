"""Regions of two layers, as programs, with what they must compute by numpy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import blob_of
from toolchain.vta.design import SAMPLES, VtaConfig, of_revision
from toolchain.vta.dumps.convolution import memory_after
from toolchain.vta.layers.layer import ConvShape, pack_activation
from toolchain.vta.layers.region import Region, RegionLayer, seeded_inputs, seeded_layer

CHANNELS, SIZE = 32, 8


@dataclass(frozen=True)
class Case:
    """A program; its input and output as the accelerator has them, [blocks, h, w, 16]."""

    blob: bytes
    x: npt.NDArray[np.int8]
    y: npt.NDArray[np.int8]


@lru_cache
def case(seed: int = 0, isa_rev: int | None = None, config: VtaConfig = SAMPLES["pynq"]) -> Case:
    """Return a residual block: two convolutions, and its input added to the second's sums."""
    config = of_revision(config, isa_rev)
    shape = ConvShape(1, SIZE, SIZE, CHANNELS, CHANNELS, 3, 3, 1, 1, 1, 1)
    layers = [
        RegionLayer(seeded_layer(shape, seed), "x", "middle"),
        RegionLayer(seeded_layer(shape, seed + 1, residual=True), "middle", "y", "x"),
    ]
    region = Region(layers, ["x"], ["y"])
    program = assemble(region, config)
    inputs = seeded_inputs(region, seed)
    _, values = memory_after(program, region, inputs, 0x1000)
    packed = [pack_activation(values[name], config.block) for name in "xy"]
    return Case(blob_of(program), *(value.reshape(-1, SIZE, SIZE, config.block) for value in packed))
