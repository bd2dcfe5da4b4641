"""What TVM's client makes of a server's bytes: read from its sources, and from nothing of ours.

`rpc_endpoint.cc` (HandleProcessPacket, HandleReturn), `minrpc/rpc_reference.h` (RecvPackedSeq) and
`rpc_module.cc` (WrapRemoteReturnToValue) of the pinned version. An answer is harmless if the client reads no
byte beyond its packet, takes nothing of it for an address of its own, and does nothing but return.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.rpc_frames import Code, Type

TENSOR_OBJECT = 70
# What a call's answer says that it is, of which the value is a handle: it goes back to the server alone.
HANDLES = (Type.FUNCTION, Type.MODULE, Type.REMOTE)
TEXTS = (Type.SMALL_STR, Type.SMALL_BYTES, Type.STR, Type.BYTES_OBJECT)


@dataclass(frozen=True)
class Asked:
    """What a client asks: the frame's code and body; for a copy, the bytes that must come."""

    code: Code
    body: bytes
    copied: int = 0


def any_question(random: Random) -> Asked:
    """Return a question that clients ask, well made."""
    code = random.choice((Code.INIT, Code.GET_FUNCTION, Code.CALL, Code.CALL, Code.COPY_TO, Code.COPY_FROM))
    if random.random() < 0.3:
        code = random.choice((*(each for each in Code if each > Code.COPY_ACK), Code.SHUTDOWN))
    if code is Code.COPY_FROM:
        copied = random.choice((0, 1, 100, 65536, 65537, 150_000))
        return Asked(code, rpc.frame(code, rpc.tensor(8, copied), struct.pack("<Q", copied)), copied)
    if code is Code.COPY_TO:
        size = random.choice((0, 4, 70_000))
        return Asked(code, rpc.frame(code, rpc.tensor(8, size), struct.pack("<Q", size), bytes(size)))
    if code is Code.SHUTDOWN:
        return Asked(code, rpc.frame(code))
    if code is Code.INIT:
        return Asked(code, rpc.init())
    handle = struct.pack("<Q", 8) if code is Code.CALL else b""
    return Asked(code, rpc.frame(code, handle, rpc.values(rpc.number(1))))


def good_answer(random: Random, asked: Asked) -> bytes:
    """Return the body of an answer that a server of TVM's gives."""
    if random.random() < 0.1:
        return rpc.frame(Code.EXCEPTION, rpc.values(rpc.text(b"it failed" * random.randrange(3))))
    if asked.code is Code.SHUTDOWN:
        return rpc.frame(Code.SHUTDOWN)
    if asked.code is Code.COPY_FROM:
        return rpc.frame(Code.COPY_ACK, random.randbytes(asked.copied))
    value = _plain(random)
    if asked.code is not Code.CALL:
        return rpc.frame(Code.RETURN, rpc.values(value))
    kind = struct.unpack_from("<i", value)[0]
    if random.random() < 0.3:
        kind, value = random.choice(HANDLES), rpc.number(random.randrange(2**47), Type.POINTER)
    if random.random() < 0.2:
        shape = [random.randrange(5) for _ in range(random.randrange(4))]
        tensor = struct.pack("<i", Type.TENSOR) + rpc.tensor(random.randrange(2**47), *shape)
        says = rpc.number(random.choice((Type.TENSOR, TENSOR_OBJECT)))
        return rpc.frame(Code.RETURN, rpc.values(says, tensor, rpc.number(8, Type.POINTER)))
    return rpc.frame(Code.RETURN, rpc.values(rpc.number(kind), value))


def _plain(random: Random) -> bytes:
    kind = random.choice((Type.NONE, Type.INT, Type.BOOL, Type.FLOAT, Type.POINTER, Type.DTYPE, Type.DEVICE))
    if kind is Type.NONE:
        return struct.pack("<i", kind)
    if random.random() < 0.4:
        kinds = (Type.TEXT, Type.BYTES, *TEXTS)
        return rpc.text(random.randbytes(random.choice((0, 1, 7, 8, 300, 70_000))), random.choice(kinds))
    return rpc.number(random.choice(rpc.LIMITS), kind)


def harmless(said: bytes, questions: list[Asked]) -> int:
    """Read what reached a client; return how many bytes of a copy are missing at its end.

    Raises
    ------
    AssertionError
        Something in it would harm the client.
    """
    place, waiting = 0, list(questions)
    while place < len(said):
        assert place + 12 <= len(said), "a header that is cut"
        size, number = struct.unpack_from("<Qi", said, place)
        assert number in (Code.RETURN, Code.EXCEPTION, Code.COPY_ACK, Code.SHUTDOWN), f"a frame of {number}"
        asked = waiting.pop(0) if waiting else None
        end = place + 8 + size
        if number == Code.COPY_ACK:  # the client reads as much as it asked for, whatever came
            assert asked and (asked.code, asked.copied + 4) == (Code.COPY_FROM, size), f"a copy of {size}"
            if end > len(said):
                return int(end - len(said))
        assert end <= len(said), f"{end - len(said)} bytes of a frame are missing"
        if number != Code.COPY_ACK:
            _check(Code(number), _Values(said[place + 12 : end]), asked)
        assert asked or end == len(said), "what nobody asked, and more after it"
        place = end
    return 0


def _check(code: Code, body: _Values, asked: Asked | None) -> None:
    if code is Code.SHUTDOWN:
        assert asked and asked.code is Code.SHUTDOWN and not body.rest, "a shutdown"
        return
    kinds = body.packed()
    if code is Code.EXCEPTION:
        assert kinds == [Type.TEXT], f"an exception of {kinds}"
        return
    assert asked and asked.code not in (Code.COPY_FROM, Code.SHUTDOWN), "returned to another question"
    if asked.code is not Code.CALL:  # SysCallRemote takes one; a tensor would point into the packet
        assert len(kinds) == 1 and kinds != [Type.TENSOR], f"returned {kinds}"
    elif body.first in (Type.TENSOR, TENSOR_OBJECT):
        assert kinds == [Type.INT, Type.TENSOR, Type.POINTER], f"returned a tensor of {kinds}"
    else:
        assert len(kinds) == 2 and kinds[0] == Type.INT and kinds[1] != Type.TENSOR, f"returned {kinds}"


class _Values:
    """A packed sequence."""

    def __init__(self, rest: bytes) -> None:
        self.rest = rest
        self.first = -1

    def packed(self) -> list[int]:
        count = self.number("<i")
        assert 0 < count <= len(self.rest), f"{count} values"
        kinds = [self._value() for _ in range(count)]
        assert not self.rest, f"{len(self.rest)} bytes after the last value"
        return kinds

    def number(self, form: str) -> int:
        value: int
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return value

    def _take(self, count: int) -> bytes:
        assert count <= len(self.rest), f"{count} bytes where {len(self.rest)} are left"
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def _value(self) -> int:
        kind = self.number("<i")
        if kind == Type.INT:
            number = self.number("<q")
            self.first = number if self.first == -1 else self.first
        elif kind in (Type.BOOL, Type.FLOAT, Type.POINTER, Type.DTYPE, Type.DEVICE):
            self._take(8)
        elif kind in (Type.TEXT, Type.BYTES):
            self._take(self.number("<Q"))
        elif kind in TEXTS:
            assert self.number("<I") in (Type.STR, Type.BYTES_OBJECT), "an object in place of a text"
            self._take(self.number("<Q"))
        elif kind == Type.TENSOR:
            self._take(16)
            rank = self.number("<i")
            assert 0 <= rank <= len(self.rest), f"{rank} dimensions"  # an arena of the client takes them
            self._take(4 + 8 * rank + 8)
        else:
            assert kind == Type.NONE, f"a value of type {kind}"
        return kind
