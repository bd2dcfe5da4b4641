"""A program: a region's instructions, and the memory that they work in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from toolchain.errors import UsageError
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.isa import Instruction, Load, Store, encode_program, is_nop
from toolchain.vta.layers.knobs import Knobs


@dataclass(frozen=True)
class Value:
    """A value of the network, in blocks of channels, in the program's memory.

    Attributes
    ----------
    offset
        In bytes, from the memory's beginning.
    shape
        [batch, blocks, h, w, rows, lanes] of int8.
    """

    name: str
    offset: int
    shape: tuple[int, int, int, int, int, int]

    @property
    def bytes(self) -> int:
        """How long it is."""
        batch, blocks, height, width, rows, lanes = self.shape
        return batch * blocks * height * width * rows * lanes


@dataclass(frozen=True)
class Section:
    """A part of the memory; `size` is what of it is used."""

    offset: int
    size: int


@dataclass(frozen=True)
class Program:
    """One region, as one program with one run of memory.

    Attributes
    ----------
    instructions
        Indices into DRAM count from the memory's beginning.
    sections
        `activations`, `constants`, `micro_ops`, `instructions`, in this order; each begins a page.
    memory_bytes
        All of it; a multiple of pages.
    constants, micro_ops
        What stands in these sections.
    values
        All values of the region; those of one name may lie where others lay before.
    knobs
        How each layer was cut.
    """

    config: VtaConfig
    instructions: tuple[Instruction, ...]
    sections: Mapping[str, Section]
    memory_bytes: int
    constants: bytes
    micro_ops: bytes
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    knobs: tuple[Knobs, ...]

    def code(self, phys_base: int = 0) -> bytes:
        """Return the instructions, encoded, for memory that begins at a physical address."""
        return encode_program(relocated(self.instructions, phys_base, self.config), self.config)

    def memory(self, phys_base: int = 0) -> bytearray:
        """Return the memory before a run; the values are zeros."""
        found = bytearray(self.memory_bytes)
        parts = {
            "constants": self.constants,
            "micro_ops": self.micro_ops,
            "instructions": self.code(phys_base),
        }
        for name, data in parts.items():
            offset = self.sections[name].offset
            found[offset : offset + len(data)] = data
        return found


def relocated(instructions: Iterable[Instruction], phys_base: int, config: VtaConfig) -> list[Instruction]:
    """Return instructions for memory that begins elsewhere: every index into DRAM moves along.

    Raises
    ------
    UsageError
        Memory cannot begin there.
    """
    most = max(buffer.element_bytes for buffer in config.buffers.values())
    if phys_base % most:
        raise UsageError(
            f"memory at {phys_base:#x} does not begin at a multiple of {most} bytes", "use a page"
        )
    return [
        replace(each, dram_base=each.dram_base + phys_base // config.buffers[each.memory].element_bytes)
        if isinstance(each, Load | Store) and not is_nop(each)
        else each
        for each in instructions
    ]
