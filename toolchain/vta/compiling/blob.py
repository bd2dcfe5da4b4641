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

from toolchain.vta.compiling.arena import aligned
from toolchain.vta.compiling.program import Program
from toolchain.vta.design.config import PAGE_BYTES, VtaConfig

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
