"""Serialises a program to bytes, the form in which libraries contain it and `edge.vta.run` takes it.

All numbers are little-endian. The bytes are a header, a description of each input and output, zeros up to
a page boundary, and the image of the memory from its section `constants` to its end. The activations, which
precede that section, have no defined initial values. Instructions in the image are for memory at address 0:
a loader adds the memory's physical address, divided by the element size, to the index of each LOAD and STORE
that moves data.

| numbers of 32 bits | header |
|---|---|
| 0 | `EVTA` |
| 1 | version of this format |
| 2 | crc32 of everything after it |
| 3-9 | configuration: `isa_rev`; logarithms of batch, block, and bytes of UOP, INP, WGT, ACC |
| 10-13 | cycle model: its version; cycles to fetch an instruction, per instruction, per row of a DMA |
| 14-18 | bytes that DMA moves in a cycle; cycles per GEMM, per step of it, per ALU, per step of it |
| 19 | MHz of the design, to convert the model's cycles to milliseconds |
| 20 | bytes of the memory, at most 32 MiB |
| 21, 22 | offset of the image in the memory and in these bytes |
| 23, 24 | offset of the instructions in the memory, and their number |
| 25, 26 | numbers of inputs and outputs |

A description has eight numbers: offset in the memory, bytes, and the dimensions
[batch, blocks, h, w, rows, lanes].
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from toolchain.errors import ToolchainError, UsageError
from toolchain.vta.design import MOST_BYTES, PAGE_BYTES, VtaConfig
from toolchain.vta.isa import Instruction, Load, Store, encode_program, is_nop
from toolchain.vta.layers.region import Knobs

# A program: VTA's instructions for a region (layers computed together), and the memory that they use.


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
        content = bytearray(self.memory_bytes)
        parts = {
            "constants": self.constants,
            "micro_ops": self.micro_ops,
            "instructions": self.code(phys_base),
        }
        for name, data in parts.items():
            offset = self.sections[name].offset
            content[offset : offset + len(data)] = data
        return content


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
        replace(
            instruction,
            dram_base=instruction.dram_base + phys_base // config.buffers[instruction.memory].element_bytes,
        )
        if isinstance(instruction, Load | Store) and not is_nop(instruction)
        else instruction
        for instruction in instructions
    ]


# Plans the memory of a program, one contiguous range of addresses, before instructions are emitted.


class ArenaError(ToolchainError):
    """A program needs more contiguous memory than a driver allocates."""


_LINE = 64  # alignment of activations: a cache line of the host


@dataclass(frozen=True)
class Lifetime:
    """The size of a value, and the steps during which it is alive.

    Attributes
    ----------
    size
        Size in bytes.
    first, last
        The step that writes it, and the last one that reads it.
    """

    size: int
    first: int
    last: int


def plan(lives: Mapping[str, Lifetime]) -> tuple[dict[str, int], int]:
    """Assign memory so that values alive at the same time do not overlap; return offsets and the total size.

    The largest values are placed first, each at the lowest free offset. All numbers are bytes.
    """
    placed: dict[str, int] = {}
    for name, life in sorted(lives.items(), key=lambda item: (-item[1].size, item[1].first, item[0])):
        occupied = sorted(
            (offset, offset + aligned(lives[other].size, _LINE))
            for other, offset in placed.items()
            if lives[other].first <= life.last and life.first <= lives[other].last
        )
        at = 0
        for low, high in occupied:
            if at + life.size <= low:
                break
            at = max(at, high)
        placed[name] = at
    return placed, max((offset + lives[name].size for name, offset in placed.items()), default=0)


def aligned(value: int, to: int) -> int:
    """Round up to a multiple of `to`."""
    return -(-value // to) * to


def sections(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the offsets of consecutive sections, and their total size, in bytes.

    Each section begins at a page boundary, which is a multiple of every buffer's element size.

    Raises
    ------
    ArenaError
        The total is larger than a driver can allocate.
    """
    at, begins = 0, {}
    for name, size in sizes.items():
        begins[name] = at
        at += aligned(size, PAGE_BYTES)
    if at > MOST_BYTES:
        raise ArenaError(_too_large(at, list(sizes.items())), _WAY_OUT)
    return begins, at


_WAY_OUT = (
    "cut the region: end it earlier with --stop-pack, or begin it later with --start-pack; "
    "a single convolution that is too large must run on the CPU"
)


def _too_large(total: int, sizes: Sequence[tuple[str, int]]) -> str:
    parts = ", ".join(f"{size / 2**20:.1f} MiB {name}" for name, size in sizes)
    return (
        f"the program needs {total / 2**20:.1f} MiB of contiguous memory ({parts}); the driver allocates "
        f"at most {MOST_BYTES // 2**20} MiB"
    )


MAGIC = b"EVTA"
VERSION = 2
HEADER = struct.Struct("<4s26I")
DESCRIPTION = struct.Struct("<8I")
_CHECKED = 12  # bytes up to and including the checksum


def blob_of(program: Program) -> bytes:
    """Serialise a program; equal programs give equal bytes."""
    values = [program.values[name] for name in (*program.inputs, *program.outputs)]
    descriptions = b"".join(DESCRIPTION.pack(value.offset, value.bytes, *value.shape) for value in values)
    begin = aligned(HEADER.size + len(descriptions), PAGE_BYTES)
    image_at = program.sections["constants"].offset
    body = descriptions + bytes(begin - HEADER.size - len(descriptions)) + program.memory()[image_at:]
    header = HEADER.pack(
        MAGIC,
        *(VERSION, 0),
        *_machine(program.config),
        program.memory_bytes,
        *(image_at, begin),
        program.sections["instructions"].offset,
        len(program.instructions),
        len(program.inputs),
        len(program.outputs),
    )
    return checked(header + body)


def checked(blob: bytes) -> bytes:
    """Return a program's bytes with the right checksum."""
    return blob[: _CHECKED - 4] + struct.pack("<I", zlib.crc32(blob[_CHECKED:])) + blob[_CHECKED:]


def _machine(config: VtaConfig) -> tuple[int, ...]:
    """Return the numbers of a design and its cycle model, in the order that `edge-rt vta` uses, too."""
    sizes = (config.log_uop_buff_size, config.log_inp_buff_size, config.log_wgt_buff_size)
    model = config.cycles
    return (
        *(config.isa_rev, config.log_batch, config.log_block, *sizes, config.log_acc_buff_size),
        *(model.version, model.fetch, model.overhead, model.dma_row, model.bus_bytes),
        *(model.pipeline, model.gemm_step, model.pipeline, model.alu_step),
        model.mhz,
    )
