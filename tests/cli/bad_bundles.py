"""Bundles that no command can use: how each is made of a good one, and what is said of it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable


def changed_byte(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def with_member(name: str, size: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        info = tarfile.TarInfo(name)
        info.size = size
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            at = archive.getmembers()[1].offset
        return data[:at] + info.tobuf(tarfile.GNU_FORMAT) + data[at:]

    return change


BUNDLES: list[tuple[str, Callable[[bytes], bytes], int, list[str]]] = [
    ("changed byte", changed_byte, 4, []),
    ("path outside", with_member("../../etc/passwd", 0), 4, ["outside"]),
    ("huge member", with_member("huge", 2**40), 4, []),
    ("truncated", lambda data: data[: len(data) // 2], 2, []),
    ("empty", lambda _: b"", 2, []),
    ("no bundle", lambda _: b"a letter\n" * 1000, 2, []),
]
