"""Checks a server's packets in TVM's session protocol.

After a greeting each packet is a little-endian uint64 length, an int32 code and a body. TVM's client executes
every packet, even a request of the server to call a function. So only answers pass, with values of the kinds
that TVM's servers send.

Source: tvm/src/runtime/rpc/rpc_endpoint.cc and minrpc/rpc_reference.h of the pinned version.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from toolchain.quantities import counted

MAGIC = 0xFF271  # tvm/rpc/base.py, RPC_MAGIC
REFUSALS = (MAGIC + 1, MAGIC + 2)  # the key is in use; there is no such key
MAX_KEY_BYTES = 4096
HEADER = struct.Struct("<Qi")
CODE_BYTES = 4
# An answer is buffered while its values are checked. The largest is a file that a client fetches; the content
# of tensors comes as a copy, which is not buffered.
MAX_ANSWER_BYTES = 64 << 20
MAX_QUESTION_BYTES = 1 << 30  # as edge-rt's ring buffer
# A copy's question: handle, device, rank, dtype, extents, offset, and the bytes asked for.
_TENSOR = struct.Struct("<Q8si4s")
_MOST_RANK = 64
_MOST_DEVICES = 128  # kRPCSessMask of tvm/runtime/rpc
MAX_COPY_QUESTION_BYTES = CODE_BYTES + _TENSOR.size + 8 * _MOST_RANK + 16
MAX_NAME_QUESTION_BYTES = 64 << 10
LOADS = b"tvm.rpc.server.load_module"
"""The function by which a client has its own code loaded (tvm/rpc/client.py)."""


class PacketCode(IntEnum):
    """The code of a packet (rpc_reference.h, RPCCode)."""

    NONE = 0
    SHUTDOWN = 1
    INIT_SERVER = 2
    CALL_FUNC = 3
    RETURN = 4
    EXCEPTION = 5
    COPY_FROM_REMOTE = 6
    COPY_TO_REMOTE = 7
    COPY_ACK = 8
    GET_GLOBAL_FUNC = 9
    FREE_HANDLE = 10
    DEV_SET_DEVICE = 11
    DEV_GET_ATTR = 12
    DEV_ALLOC_DATA = 13
    DEV_FREE_DATA = 14
    DEV_STREAM_SYNC = 15
    COPY_AMONG_REMOTE = 16
    DEV_ALLOC_DATA_WITH_SCOPE = 17
    DEV_CREATE_STREAM = 18
    DEV_FREE_STREAM = 19
    DEV_SET_STREAM = 20
    DEV_GET_CURRENT_STREAM = 21


_ANSWERS = (PacketCode.RETURN, PacketCode.EXCEPTION, PacketCode.COPY_ACK)
QUESTIONS = frozenset(set(PacketCode) - {PacketCode.NONE, *_ANSWERS})


class _Kind(IntEnum):
    """The type of a value (tvm/ffi/c_api.h, TVMFFITypeIndex)."""

    NONE = 0
    INT = 1
    BOOL = 2
    FLOAT = 3
    OPAQUE_PTR = 4
    DATA_TYPE = 5
    DEVICE = 6
    DL_TENSOR_PTR = 7
    RAW_STR = 8
    BYTE_ARRAY_PTR = 9
    SMALL_STR = 11
    SMALL_BYTES = 12
    STR = 65
    BYTES = 66


# Functions, modules and other objects are missing, since the client would take their handles for its own
# addresses.
_FIXED_BYTES = {
    _Kind.NONE: 0,
    _Kind.INT: 8,
    _Kind.BOOL: 8,
    _Kind.FLOAT: 8,
    _Kind.OPAQUE_PTR: 8,
    _Kind.DATA_TYPE: 8,
    _Kind.DEVICE: 8,
}
_TENSOR_TYPES = (_Kind.DL_TENSOR_PTR, 70)  # how a call's answer says that it is one


class LieError(Exception):
    """A server violated the protocol."""


@dataclass(frozen=True)
class Question:
    """A client's request: its code, and for a copy from the board the expected number of bytes."""

    code: PacketCode
    copied_bytes: int = 0


def name_of(code: int) -> str:
    """Return TVM's name of a code."""
    if code in PacketCode.__members__.values():
        return "k" + "".join(word.capitalize() for word in PacketCode(code).name.split("_"))
    return f"the unknown code {code}"


def copied_bytes(body: bytes) -> int:
    """Return the number of bytes that a request to copy from the board asks for, its last field."""
    if len(body) < 8:
        raise ValueError("a copy without a size")
    return int.from_bytes(body[-8:], "little")


def check_header(size: int, code: int, question: Question | None) -> None:
    """Check the header of a server's packet.

    Parameters
    ----------
    size, code
        Fields of the header; `size` includes the code's four bytes.
    question
        The pending request, None if there is none.

    Raises
    ------
    LieError
        Only a client may send the code, or it does not answer the request, or the packet is too long.
    """
    asked = f"in answer to {name_of(question.code)}" if question else "without being asked"
    if code == PacketCode.EXCEPTION:
        fits = True  # a server may announce the end of its time at any moment
    elif code == PacketCode.RETURN:
        fits = question is not None and question.code not in (
            PacketCode.COPY_FROM_REMOTE,
            PacketCode.SHUTDOWN,
        )
    elif code == PacketCode.COPY_ACK:
        fits = question is not None and question.code is PacketCode.COPY_FROM_REMOTE
    elif code == PacketCode.SHUTDOWN:
        fits = question is not None and question.code is PacketCode.SHUTDOWN
    else:
        said = name_of(code)
        raise LieError(f"sent {said}, which only a client may say" if code in QUESTIONS else f"sent {said}")
    if not fits:
        raise LieError(f"sent {name_of(code)} {asked}")
    if code == PacketCode.COPY_ACK and question is not None:
        if size != CODE_BYTES + question.copied_bytes:
            raise LieError(
                f"sent {counted(size - CODE_BYTES, 'byte')} where {question.copied_bytes} were asked for"
            )
    elif not CODE_BYTES <= size <= MAX_ANSWER_BYTES:
        raise LieError(f"announced {name_of(code)} of {size} bytes; the most is {MAX_ANSWER_BYTES}")


def check_answer(code: int, body: bytes | memoryview, question: Question | None) -> None:
    """Check the values of a return, an exception or a shutdown.

    Raises
    ------
    LieError
        The lengths of the values contradict the packet's, or a value has a kind that no server sends.
    """
    if code == PacketCode.SHUTDOWN:
        if len(body):
            raise LieError(f"sent kShutdown with {counted(len(body), 'byte')}")
        return
    try:
        kinds, first = _kinds(body)
    except struct.error as error:
        raise LieError(f"sent {name_of(code)} whose parts are longer than itself") from error
    if code == PacketCode.EXCEPTION:
        if kinds != [_Kind.RAW_STR]:
            raise LieError("sent an exception that is no text")
    elif question is None or question.code is not PacketCode.CALL_FUNC:
        if len(kinds) != 1 or kinds[0] is _Kind.DL_TENSOR_PTR:
            raise LieError(f"returned {counted(len(kinds), 'value')} where one was asked for")
    elif first in _TENSOR_TYPES:
        if kinds != [_Kind.INT, _Kind.DL_TENSOR_PTR, _Kind.OPAQUE_PTR]:
            raise LieError("returned a tensor that is none")
    elif len(kinds) != 2 or kinds[0] is not _Kind.INT or kinds[1] is _Kind.DL_TENSOR_PTR:
        raise LieError(f"returned {counted(len(kinds), 'value')} that are no call's")


def exception(message: str) -> bytes:
    """Return the packet that reports an error to a client."""
    text = message.encode(errors="replace").replace(b"\0", b"?")
    body = struct.pack("<iiQ", 1, _Kind.RAW_STR, len(text)) + text
    return HEADER.pack(CODE_BYTES + len(body), PacketCode.EXCEPTION) + body


def _kinds(body: bytes | memoryview) -> tuple[list[_Kind], int]:
    """Return the kinds of a packed sequence's values, and the first one as a number.

    Raises
    ------
    struct.error
        The body is too short.
    LieError
        The body is too long, or has a value that no server sends.
    """
    (count,) = struct.unpack_from("<i", body)
    if not 1 <= count <= 3:
        raise LieError(f"sent {counted(count, 'value')}")
    place, first = 4, 0
    kinds: list[_Kind] = []
    for _ in range(count):
        (number,) = struct.unpack_from("<i", body, place)
        place += 4
        if number not in _Kind.__members__.values():
            raise LieError(f"sent a value of type {number}")
        kind = _Kind(number)
        if kind is _Kind.INT and not kinds:
            (first,) = struct.unpack_from("<q", body, place)
        place = _end(kind, body, place)
        kinds.append(kind)
    if place != len(body):
        raise LieError(f"sent {counted(len(body) - place, 'byte')} behind its values")
    return kinds, first


def _end(kind: _Kind, body: bytes | memoryview, place: int) -> int:
    """Return the end of the value that begins at `place`."""
    if kind in _FIXED_BYTES:
        size = _FIXED_BYTES[kind]
    elif kind is _Kind.DL_TENSOR_PTR:
        _, device, rank, _ = _TENSOR.unpack_from(body, place)
        if not 0 <= rank <= _MOST_RANK:
            raise LieError(f"sent a tensor of {counted(rank, 'dimension')}")
        (kind_of_device,) = struct.unpack_from("<i", device)
        if not 0 < kind_of_device < _MOST_DEVICES:  # the client adds its session to that number
            raise LieError(f"sent a tensor of device {kind_of_device}")
        size = _TENSOR.size + 8 * rank + 8
    else:
        if kind not in (_Kind.RAW_STR, _Kind.BYTE_ARRAY_PTR):  # its type stands there once more
            (again,) = struct.unpack_from("<I", body, place)
            if again not in (_Kind.STR, _Kind.BYTES):
                raise LieError(f"sent a text of type {again}")
            place += 4
        (length,) = struct.unpack_from("<Q", body, place)
        size = 8 + int(length)
    if place + size > len(body):
        raise struct.error("too short")
    return place + size
