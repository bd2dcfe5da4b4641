"""Encodes and decodes messages of TVM's tracker protocol.

Both sides begin with a magic number; then each message is a little-endian int32 length and that
many bytes of JSON. Requests are lists that begin with a `TrackerCode`; every request has one reply.
"""

from __future__ import annotations

import json
import math
import re
import struct
from enum import IntEnum
from typing import Any

HOST = "127.0.0.1"  # nothing of ours listens anywhere else
MAGIC = struct.pack("<i", 0x2F271)  # tvm/rpc/base.py, RPC_TRACKER_MAGIC
HEADER_BYTES = 4
# The longest requests hold a key, an address and a match key; replies list every server.
MAX_REQUEST_BYTES = 64 * 1024
MAX_REPLY_BYTES = 16 * 1024 * 1024
# Lease of a client that requests none, such as TVM's own clients.
UNSAID_TTL_S = 3600.0
MAX_TTL_S = 24 * 3600.0
_TTL = re.compile(r" ttl=([0-9.]{1,12})$")


class TrackerCode(IntEnum):
    """First element of a request (tvm/rpc/base.py, TrackerCode)."""

    FAIL = -1
    SUCCESS = 0
    PING = 1
    STOP = 2
    PUT = 3
    REQUEST = 4
    UPDATE_INFO = 5
    SUMMARY = 6
    GET_PENDING_MATCHKEYS = 7


class FrameError(Exception):
    """The peer does not speak the protocol."""


def encode(message: Any) -> bytes:
    """Return the bytes of a message."""
    body = json.dumps(message).encode()
    return struct.pack("<i", len(body)) + body


def body_size(header: bytes, limit: int) -> int:
    """Return the length that a header announces.

    Raises
    ------
    FrameError
        The length is not in 1..limit.
    """
    size = int(struct.unpack("<i", header)[0])
    if not 0 < size <= limit:
        raise FrameError(f"a message of {size} bytes")
    return size


def decode(body: bytes) -> Any:
    """Return the message of a body.

    Raises
    ------
    FrameError
        It is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from error


def decode_request(body: bytes) -> tuple[TrackerCode, list[Any]]:
    """Return code and arguments of a request's body.

    Raises
    ------
    FrameError
        It is not a list that begins with a code.
    """
    message = decode(body)
    if not isinstance(message, list) or not message or type(message[0]) is not int:
        raise FrameError("a request is a list that begins with a code")
    try:
        return TrackerCode(message[0]), message[1:]
    except ValueError as error:
        raise FrameError(f"unknown code {message[0]}") from error


def user_text(who: str, ttl_s: float) -> str:
    """Return the user field of a request, which the protocol leaves free; ours has the lease time."""
    return f"{who} ttl={ttl_s:.1f}"


def parse_user(text: object) -> tuple[str, float]:
    """Parse the user field: return the client's name and its lease time in seconds."""
    said = text if isinstance(text, str) else ""
    found = _TTL.search(said)
    try:
        seconds = float(found[1]) if found else math.nan
    except ValueError:
        seconds = math.nan
    return said[: found.start()] if found else said, min(seconds, MAX_TTL_S) if seconds > 0 else UNSAID_TTL_S
