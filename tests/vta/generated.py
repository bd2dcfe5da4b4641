"""Layers with any values, compiled, and run by the strict machine against numpy's integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from toolchain.arrays import Array
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import Program
from toolchain.vta.compiling.estimate import legal_knobs
from toolchain.vta.design import SAMPLES, VtaConfig
from toolchain.vta.dumps.convolution import memory_after, memory_before
from toolchain.vta.isa import decode_program
from toolchain.vta.layers.layer import ConvLayer, ConvShape
from toolchain.vta.layers.region import Knobs, Region, RegionLayer, seeded_inputs
from toolchain.vta.lint import problems
from toolchain.vta.machine.requests import EncodedProgram, SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator

PYNQ = SAMPLES["pynq"]
BASE = 0x1000


def layer(
    shape: ConvShape, seed: int = 0, residual: bool = False, low: int = -127, high: int = 127
) -> ConvLayer:
    """Return a layer with values that use all of their ranges."""
    random = np.random.default_rng(seed)
    left = random.integers(0, 7, shape.oc) + random.integers(0, 16) if residual else None
    return ConvLayer(
        shape,
        random.integers(-128, 128, (shape.oc, shape.ic, shape.kh, shape.kw), dtype=np.int8),
        (random.integers(-(2**30), 2**30, shape.oc) >> random.integers(0, 28, shape.oc)).astype(np.int32),
        random.integers(1, 16, shape.oc),
        left,
        low,
        high,
    )


def alone(layer: ConvLayer, knobs: Knobs | None = None) -> Region:
    """Return a region of one layer."""
    named = ["x", *(["r"] if layer.left is not None else [])]
    residual = "r" if layer.left is not None else None
    return Region([RegionLayer(layer, "x", "y", residual, knobs)], named, ["y"])


@dataclass(frozen=True)
class Ran:
    """What the machine made of a region."""

    program: Program
    outcome: Simulated
    values: dict[str, Array]


def run(simulator: Simulator, region: Region, config: VtaConfig = PYNQ, seed: int = 0) -> Ran:
    """Run a region strictly; its memory must be numpy's, bit for bit."""
    program = assemble(region, config)
    inputs = seeded_inputs(region, seed)
    before = bytes(memory_before(program, inputs, BASE))
    outcome = simulator.run(EncodedProgram(config, program.code(BASE), before, BASE), SimOptions(strict=True))
    assert isinstance(outcome, Simulated), outcome
    after, values = memory_after(program, region, inputs, BASE)
    assert outcome.memory is not None
    wrong = np.flatnonzero(np.frombuffer(outcome.memory, np.uint8) != np.frombuffer(after, np.uint8))
    assert not wrong.size, f"{wrong.size} bytes differ, the first at {wrong[0]}"
    return Ran(program, outcome, values)


def lint(program: Program) -> list[object]:
    """Return what the lint says of a program."""
    instructions = decode_program(program.code(BASE), program.config)
    return list(problems(instructions, bytes(program.memory(BASE)), BASE, program.config))


@st.composite
def shapes(draw: st.DrawFn, most: int = 14, kernels: Sequence[int] = (1, 1, 2, 3, 3, 5, 7)) -> ConvShape:
    """Return small convolutions of all kinds."""
    kh, kw = draw(st.sampled_from(kernels)), draw(st.sampled_from(kernels))
    ph, pw = (draw(st.integers(0, min(kernel - 1, 3))) for kernel in (kh, kw))
    least = (max(1, kh - 2 * ph), max(1, kw - 2 * pw))
    h, w = (draw(st.integers(low, max(low, most))) for low in least)
    channels = st.integers(1, 70)
    return ConvShape(
        *(1, h, w),
        draw(channels),
        draw(channels),
        *(kh, kw, ph, pw),
        draw(st.sampled_from((1, 2))),
        draw(st.sampled_from((1, 2, 3))),
    )


@st.composite
def regions(draw: st.DrawFn, config: VtaConfig = PYNQ, most: int = 14) -> Region:
    """Return regions of one layer, cut in any legal way."""
    shape, residual = draw(shapes(most)), draw(st.booleans())
    legal = legal_knobs(shape, config, residual)
    assume(legal)
    high = draw(st.one_of(st.just(127), st.integers(1, 127)))
    values = layer(shape, draw(st.integers(0, 2**32 - 1)), residual, draw(st.sampled_from((0, -127))), high)
    return alone(values, draw(st.sampled_from(legal)))
