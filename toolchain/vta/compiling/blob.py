"""A program as one run of bytes: what a library holds, and `edge.vta.run` is given.

All numbers are little-endian. A header, a description of each input and output, zeros up to a page; then the
memory's image from its section `constants` to its end. What is before that, the activations, begins with any
values. Instructions stand in the image as they are for memory at address 0: whoever loads a program adds, to
the index of each LOAD and STORE that moves something, the memory's physical address divided by an element's
bytes.

| numbers of 32 bits | header |
|---|---|
| 0 | `EVTA` |
| 1 | version of this form |
| 2 | crc32 of all that comes behind it |
| 3-9 | configuration: `isa_rev`; logarithms of batch, block, and bytes of UOP, INP, WGT, ACC |
| 10-13 | cycle model: its version; cycles to fetch an instruction, of each one, of a DMA's row |
| 14-18 | bytes that DMA moves in a cycle; cycles of each GEMM, its steps, each ALU, its steps |
| 19 | MHz of the design, for the model's milliseconds |
| 20 | bytes of the memory, at most 32 MiB |
| 21, 22 | where the image begins, in the memory and in this run of bytes |
| 23, 24 | where the instructions begin in the memory, and how many there are |
| 25, 26 | how many inputs and outputs there are |

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
_CHECKED = 12  # bytes up to the checksum, it included


def blob_of(program: Program) -> bytes:
    """Return a program as one run of bytes; the same program gives the same bytes."""
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
    """Return a program's bytes with the checksum that they need."""
    return blob[: _CHECKED - 4] + struct.pack("<I", zlib.crc32(blob[_CHECKED:])) + blob[_CHECKED:]


def _machine(config: VtaConfig) -> tuple[int, ...]:
    """Return what a design is, and how its cycles are counted, as `edge-rt vta` has them too."""
    sizes = (config.log_uop_buff_size, config.log_inp_buff_size, config.log_wgt_buff_size)
    model = config.cycles
    return (
        *(config.isa_rev, config.log_batch, config.log_block, *sizes, config.log_acc_buff_size),
        *(model.version, model.fetch, model.overhead, model.dma_row, model.bus_bytes),
        *(model.pipeline, model.gemm_step, model.pipeline, model.alu_step),
        model.mhz,
    )
