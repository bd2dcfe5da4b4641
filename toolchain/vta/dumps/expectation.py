"""Computes the memory of a program before and after a run, with numpy."""

from __future__ import annotations

from collections.abc import Mapping

from toolchain.arrays import Array
from toolchain.vta.compiling.program import Program
from toolchain.vta.layers.packing import pack_activation
from toolchain.vta.layers.reference import expected
from toolchain.vta.layers.region import Region


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
    for each in region.layers:
        residual = values[each.residual] if each.residual else None
        values[each.result] = expected(each.layer, values[each.source], residual)
        _write(memory, program, each.result, values[each.result])
    return memory, values


def _write(memory: bytearray, program: Program, name: str, value: Array) -> None:
    place = program.values[name]
    memory[place.offset : place.offset + place.bytes] = pack_activation(value, program.config.block).tobytes()
