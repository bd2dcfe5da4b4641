"""A program: VTA's instructions for a region (layers computed together), and the memory that they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from toolchain.errors import UsageError
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.isa import Instruction, Load, Store, encode_program, is_nop
from toolchain.vta.layers.knobs import Knobs


@dataclass(frozen=True)
class PlacedValue:
    """A value of the network in the program's memory, packed in blocks of channels.

    Attributes
    ----------
    offset
        Offset in the memory, in bytes.
    shape
        [batch, blocks, h, w, rows, lanes] of int8.
    """

    name: str
    offset: int
    shape: tuple[int, int, int, int, int, int]

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        batch, blocks, height, width, rows, lanes = self.shape
        return batch * blocks * height * width * rows * lanes


@dataclass(frozen=True)
class Section:
    """A section of the memory; `size` is the used part in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class Program:
    """A region compiled to one program with one contiguous memory.

    Attributes
    ----------
    instructions
        Instructions whose indices into DRAM count from the beginning of the memory.
    sections
        `activations`, `constants`, `micro_ops`, `instructions`, in this order; each begins at a page.
    memory_bytes
        Size of the memory, a multiple of the page size.
    constants, micro_ops
        Contents of these sections.
    values
        All values of the region; a value may reuse the memory of one that is no longer needed.
    knobs
        The knobs with which each layer was cut.
    """

    config: VtaConfig
    instructions: tuple[Instruction, ...]
    sections: Mapping[str, Section]
    memory_bytes: int
    constants: bytes
    micro_ops: bytes
    values: Mapping[str, PlacedValue]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    knobs: tuple[Knobs, ...]

    def code(self, phys_base: int = 0) -> bytes:
        """Return the encoded instructions for memory that begins at physical address `phys_base`."""
        return encode_program(relocated(self.instructions, phys_base, self.config), self.config)

    def memory(self, phys_base: int = 0) -> bytearray:
        """Return the content of the memory before a run; the activations are zeros."""
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
    """Relocate instructions to memory at a physical address, by changing every index into DRAM.

    Raises
    ------
    UsageError
        The address is not a multiple of the largest element size.
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
