"""Frames of TVM's RPC protocol (tvm/src/runtime/rpc/minrpc/rpc_reference.h), well made and broken."""

from __future__ import annotations

import struct
from enum import IntEnum
from random import Random

VERSION = b"0.8.0"
MAGIC = 0xFF271


class Code(IntEnum):
    """What a frame begins with."""

    NONE, SHUTDOWN, INIT, CALL, RETURN, EXCEPTION, COPY_FROM, COPY_TO, COPY_ACK = range(9)
    GET_FUNCTION, FREE_HANDLE, SET_DEVICE, GET_ATTR, ALLOC, FREE, SYNC, COPY_AMONG, ALLOC_TENSOR = range(
        9, 18
    )
    CREATE_STREAM, FREE_STREAM, SET_STREAM, GET_STREAM = range(18, 22)


class Type(IntEnum):
    """What a value begins with (tvm_ffi/c_api.h)."""

    NONE, INT, BOOL, FLOAT, POINTER, DTYPE, DEVICE, TENSOR, TEXT, BYTES = range(10)
    SMALL_STR, SMALL_BYTES = 11, 12
    STR, BYTES_OBJECT = 65, 66
    FUNCTION, MODULE, REMOTE = 68, 73, 115


NOTHING = struct.pack("<i", Type.NONE)
CPU = struct.pack("<ii", 1, 0)
OPENCL = struct.pack("<ii", 4, 0)
LAZY = struct.pack("<ii", 12, 0)  # tests/runtime/lazy_device.cc, where it is compiled in
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 64, 65, 70, 127, 255, 4096, 2**16, 2**20, 2**30, 2**31 - 1, 2**31, 2**32)
LIMITS = (*NUMBERS, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 8)


def greeting(key: bytes) -> bytes:
    """Return what each side says before its first frame."""
    return struct.pack("<ii", MAGIC, len(key)) + key


def framed(body: bytes) -> bytes:
    """Return a frame: how long it is, and itself."""
    return struct.pack("<Q", len(body)) + body


def frame(code: int, *parts: bytes) -> bytes:
    """Return the body of a frame."""
    return struct.pack("<i", code) + b"".join(parts)


def values(*each: bytes) -> bytes:
    """Return values, as a call takes them."""
    return struct.pack("<i", len(each)) + b"".join(each)


def number(value: int, kind: int = Type.INT) -> bytes:
    """Return a value of eight bytes: a number or a handle."""
    return struct.pack("<iQ", kind, value % 2**64)


def text(words: bytes, kind: int = Type.TEXT) -> bytes:
    """Return a value with its own length."""
    inner = struct.pack("<I", {11: 65, 12: 66}.get(kind, kind)) if kind > Type.BYTES else b""
    return struct.pack("<i", kind) + inner + struct.pack("<Q", len(words)) + words


def tensor(
    data: int, *shape: int, offset: int = 0, dtype: tuple[int, int, int] = (2, 32, 1), device: bytes = CPU
) -> bytes:
    """Return a tensor without the type of a value before it."""
    head = struct.pack("<Q", data % 2**64) + device + struct.pack("<iBBH", len(shape), *dtype)
    return head + struct.pack(f"<{len(shape)}qQ", *shape, offset % 2**64)


def init(*arguments: bytes, version: bytes = VERSION) -> bytes:
    """Return what a client begins with."""
    return frame(Code.INIT, struct.pack("<Q", len(version)), version, values(*arguments))


def any_value(random: Random, handles: list[int]) -> bytes:
    """Return a value of any type, well made, with handles that may be known."""
    handle = random.choice([*handles, 0, random.choice(LIMITS)])
    shape = [random.choice((0, 1, 2, 8, 2**31, 2**62)) for _ in range(random.randrange(4))]
    words = random.randbytes(random.choice((0, 1, 7, 8, 40)))
    kind = random.choice(list(Type))
    if kind is Type.NONE:
        return NOTHING
    if kind is Type.DEVICE:
        return struct.pack("<iii", kind, random.choice((1, 2, 14, -1, 40, 200)), random.choice((0, 1, -1)))
    if kind is Type.TENSOR:
        return struct.pack("<i", kind) + tensor(handle, *shape, offset=random.choice(LIMITS))
    if kind is Type.REMOTE:
        return struct.pack("<iIQ", kind, kind, handle % 2**64)
    if kind in (Type.TEXT, Type.BYTES, Type.SMALL_STR, Type.SMALL_BYTES, Type.STR, Type.BYTES_OBJECT):
        return text(words, kind)
    pointing = kind in (Type.POINTER, Type.FUNCTION, Type.MODULE)
    return number(handle if pointing else random.choice(LIMITS), kind)


def mutated(random: Random, body: bytes) -> bytes:
    """Return a frame's body with some of it wrong."""
    out = bytearray(body)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(out) + 1)
        size = random.choice((1, 2, 4, 8))
        match random.randrange(6):
            case 0:
                out[at : at + size] = random.randbytes(size)
            case 1:  # a length, a count or a handle
                out[at : at + size] = (random.choice(LIMITS) % 256**size).to_bytes(size, "little")
            case 2:
                del out[at : at + random.choice((1, 4, 8, 100))]
            case 3:
                out[at:at] = random.randbytes(size)
            case 4:
                out[at:at] = out[random.randrange(len(out) + 1) :][: random.choice((4, 8, 32))]
            case _:
                if at < len(out):
                    out[at] ^= 1 << random.randrange(8)
    return bytes(out)
