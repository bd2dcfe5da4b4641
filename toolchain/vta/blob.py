"""A program as one run of bytes: what a library holds, and `edge.vta.run` is given.

All numbers are little-endian. A header, a description of each input and output, zeros up to a page; then the
memory's image from its section `constants` to its end. What is before that, the activations, begins with any
values. Instructions stand in the image as they are for memory at address 0: whoever loads a program adds, to
the index of each LOAD and STORE that moves something, the memory's physical address divided by an element's
bytes.

| bytes | header |
|---|---|
| 0-3 | `EVTA` |
| 4-7 | version of this form |
| 8-11 | `isa_rev` of the configuration |
| 12-43 | sha256 of the configuration's bitstream name: designs of one name compute the same |
| 44-47 | bytes of the memory, at most 32 MiB |
| 48-51, 52-55 | where the image begins, in the memory and in this run of bytes |
| 56-59, 60-63 | where the instructions begin in the memory, and how many there are |
| 64-67, 68-71 | how many inputs and outputs there are |
| 72-75 | crc32 of all that comes after the header |

A description has eight numbers: offset in the memory, bytes, and the dimensions
[batch, blocks, h, w, rows, lanes].
"""

from __future__ import annotations

import struct
import zlib
from hashlib import sha256

from toolchain.vta.arena import aligned
from toolchain.vta.config import PAGE_BYTES, VtaConfig
from toolchain.vta.program import Program

MAGIC = b"EVTA"
VERSION = 1
HEADER = struct.Struct("<4sII32sIIIIIIII")
DESCRIPTION = struct.Struct("<8I")


def blob_of(program: Program) -> bytes:
    """Return a program as one run of bytes; the same program gives the same bytes."""
    values = [program.values[name] for name in (*program.inputs, *program.outputs)]
    descriptions = b"".join(DESCRIPTION.pack(value.offset, value.bytes, *value.shape) for value in values)
    begin = aligned(HEADER.size + len(descriptions), PAGE_BYTES)
    image_at = program.sections["constants"].offset
    body = descriptions + bytes(begin - HEADER.size - len(descriptions)) + program.memory()[image_at:]
    header = HEADER.pack(
        MAGIC,
        VERSION,
        program.config.isa_rev,
        config_hash(program.config),
        program.memory_bytes,
        image_at,
        begin,
        program.sections["instructions"].offset,
        len(program.instructions),
        len(program.inputs),
        len(program.outputs),
        zlib.crc32(body),
    )
    return header + body


def config_hash(config: VtaConfig) -> bytes:
    """Return what stands for a configuration in a program."""
    return sha256(config.bitstream.encode()).digest()
