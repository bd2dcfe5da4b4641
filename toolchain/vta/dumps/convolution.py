"""Compiles a convolution, or a region of layers that VTA computes together, to a dump of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from toolchain.arrays import Array
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import PlacedValue, Program, sections
from toolchain.vta.compiling.estimate import estimated_cycles
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design import VtaConfig
from toolchain.vta.layers.layer import ConvShape, blocks_of, expected, pack_activation
from toolchain.vta.layers.region import Knobs, Region, seeded_inputs, seeded_layer, seeded_region

if TYPE_CHECKING:
    from toolchain.vta.dumps.dump import Dump, Place


# Computes the memory of a program before and after a run, with numpy.


def memory_before(program: Program, inputs: Mapping[str, Array], phys_base: int) -> bytearray:
    """Return the memory before a run; the inputs are int8 [channels, h, w]."""
    memory = program.memory(phys_base)
    for name, value in inputs.items():
        _write(memory, program, name, value)
    return memory


def memory_after(
    program: Program, region: Region, inputs: Mapping[str, Array], phys_base: int
) -> tuple[bytearray, dict[str, Array]]:
    """Return the expected memory after a run, and every value of the region."""
    memory = memory_before(program, inputs, phys_base)
    values = dict(inputs)
    for conv in region.layers:
        residual = values[conv.residual] if conv.residual else None
        values[conv.result] = expected(conv.layer, values[conv.source], residual)
        _write(memory, program, conv.result, values[conv.result])
    return memory, values


def _write(memory: bytearray, program: Program, name: str, value: Array) -> None:
    place = program.values[name]
    memory[place.offset : place.offset + place.bytes] = pack_activation(value, program.config.block).tobytes()


@dataclass(frozen=True)
class CompiledConvolution:
    """A compiled convolution with its knobs.

    Attributes
    ----------
    estimated_cycles
        Estimate by a formula with the cycle model's constants; the model itself is in `edge-rt vta`.
    """

    dump: Dump
    knobs: Knobs
    estimated_cycles: int


def compile_convolution(
    shape: ConvShape, config: VtaConfig, knobs: Knobs | None, seed: int, residual: bool = False
) -> CompiledConvolution:
    """Compile a convolution with random values.

    Parameters
    ----------
    knobs
        How it is cut; None: the knobs with the fewest estimated cycles.
    seed
        Random seed of the values.
    residual
        Whether a residual is added to its sums.

    Raises
    ------
    ToolchainError
        The knobs or the convolution do not fit.
    """
    _check_size(shape, config)
    region, inputs = _region(shape, knobs, seed, residual)
    program = assemble(region, config)
    chosen = program.knobs[0]
    cut = Tiling(shape, chosen, config, residual)
    return CompiledConvolution(dump_of(program, region, inputs), chosen, estimated_cycles(cut))


def program_of(shape: ConvShape, config: VtaConfig, knobs: Knobs, seed: int) -> Program:
    """Compile a convolution with random weights; the errors are those of `compile_convolution`."""
    region, _inputs = _region(shape, knobs, seed, residual=False)
    return assemble(region, config)


def _region(
    shape: ConvShape, knobs: Knobs | None, seed: int, residual: bool
) -> tuple[Region, dict[str, Array]]:
    region, inputs = seeded_region(seeded_layer(shape, seed, residual), seed)
    return replace(region, layers=[replace(conv, knobs=knobs) for conv in region.layers]), inputs


def _check_size(shape: ConvShape, config: VtaConfig) -> None:
    """Check that the memory is large enough before weights are drawn, which could take gigabytes."""
    inputs, outputs = blocks_of(shape.ic, config.block), blocks_of(shape.oc, config.block)
    pixels = inputs * shape.h * shape.w + outputs * shape.oh * shape.ow
    weights = inputs * outputs * shape.taps * config.block**2
    sections({"activations": pixels * config.block, "constants": weights})


def compile_region(region: Region, config: VtaConfig, seed: int) -> Dump:
    """Compile a region of a network, with random inputs.

    Raises
    ------
    ToolchainError
        A layer does not fit, or the region needs more memory than a driver can allocate.
    """
    return dump_of(assemble(region, config), region, seeded_inputs(region, seed))


def dump_of(program: Program, region: Region, inputs: Mapping[str, Array]) -> Dump:
    """Return a program with the memory before it and, computed with numpy, the memory after it."""
    from toolchain.vta.dumps.dump import PHYSICAL_BASE, Dump

    after, _ = memory_after(program, region, inputs, PHYSICAL_BASE)
    return Dump(
        program.config,
        program.code(PHYSICAL_BASE),
        bytes(memory_before(program, inputs, PHYSICAL_BASE)),
        bytes(after),
        [_place(program.values[name]) for name in program.inputs],
        [_place(program.values[name]) for name in program.outputs],
        PHYSICAL_BASE,
    )


def _place(value: PlacedValue) -> Place:
    from toolchain.vta.dumps.dump import Place

    return Place(offset=value.offset, bytes=value.bytes, shape=value.shape, dtype="int8")
