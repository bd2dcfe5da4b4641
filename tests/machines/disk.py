"""A disk with a cache that a power cut empties, served to QEMU.

Killing QEMU loses what lay in the machine's memory, but nothing that the machine has handed to its disk: the
host's page cache keeps that, with each of QEMU's cache modes. A real disk has a cache of its own, and keeps
for sure only what was flushed. So this disk is a server of ours in NBD's protocol
(https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md): it holds writes in memory until the
machine flushes, and at a cut it loses all, some or none of the others, block by block.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4096

_OPTION, _OPTION_REPLY, _REQUEST, _REPLY = 0x49484156454F5054, 0x3E889045565A9, 0x25609513, 0x67446698
_ABORT, _GO = 2, 7  # options
_ACK, _INFO, _UNSUPPORTED = 1, 3, 0x80000001  # their replies
_READ, _WRITE, _DISCONNECT, _FLUSH = 0, 1, 2, 3  # requests
_FUA = 1  # a request's flag: this write is not only cached
_FLAGS = 1 | 4 | 8  # of the disk: it has flags, and knows flushes and FUA
_EINVAL = 22


@dataclass(frozen=True)
class Loss:
    """What a cut did to the writes that were not flushed: how many blocks had any, and how many lost some."""

    how: str
    unflushed: int
    lost: int


class Disk:
    """The server, on a socket that it makes; a machine at a time.

    Parameters
    ----------
    base
        The disk's content at first; it is not changed.
    path
        The socket.
    flush_s
        Seconds that a flush takes: until it is over, a cut loses what it would have flushed.

    Attributes
    ----------
    flushes
        How often the machine has flushed.
    """

    def __init__(self, base: Path, path: Path, flush_s: float = 0.0) -> None:
        self.flushes = 0
        self._flush_s = flush_s
        self._off = threading.Event()
        self._base = os.open(base, os.O_RDONLY)
        self._size = os.fstat(self._base).st_size
        self._stable: dict[int, bytes] = {}  # block -> content that differs from the base
        self._cached: dict[int, list[bytes]] = {}  # block -> contents since the last flush, in order
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self._idle = threading.Event()
        self._idle.set()

    def close(self) -> None:
        """End the server."""
        for each in (self._server, self._connection):
            if each is not None:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self._thread.join()
        os.close(self._base)

    def switch_off(self) -> None:
        """Take the disk's power: whatever the machine still asks for is not done."""
        self._off.set()

    def cut(self, chance: random.Random, how: str | None = None) -> Loss:
        """Lose unflushed writes of a killed machine: all, some or none of them; by default chance says."""
        assert self._idle.wait(60), "the machine still uses its disk"
        self._off.clear()
        how = how or chance.choice(("all", "some", "some", "none"))
        lost = 0
        for block, contents in sorted(self._cached.items()):
            kept = {"all": 0, "none": len(contents)}.get(how, chance.randint(0, len(contents)))
            lost += kept < len(contents)
            if kept:
                self._stable[block] = contents[kept - 1]
        loss = Loss(how, len(self._cached), lost)
        self._cached.clear()
        return loss

    def snapshot(self) -> dict[int, bytes]:
        """Return what the disk has, flushed or not, after the machine was saved."""
        return self._stable | {block: contents[-1] for block, contents in self._cached.items()}

    def restore(self, content: dict[int, bytes]) -> None:
        """Set what the disk has, while no machine uses it."""
        assert self._idle.wait(60), "a machine uses this disk"
        self._stable, self._cached = dict(content), {}

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connection = connection
            self._idle.clear()
            with connection, suppress(OSError, struct.error):
                if self._agree(connection):
                    while self._serve(connection):
                        pass
            self._idle.set()

    def _agree(self, connection: socket.socket) -> bool:
        connection.sendall(b"NBDMAGIC" + struct.pack(">QH", _OPTION, 1 | 2))
        _take(connection, 4)
        while True:
            _, option, length = struct.unpack(">QII", _take(connection, 16))
            _take(connection, length)
            if option == _GO:
                export = struct.pack(">HQH", 0, self._size, _FLAGS)
                connection.sendall(struct.pack(">QIII", _OPTION_REPLY, option, _INFO, len(export)) + export)
            known = option in (_GO, _ABORT)
            reply = struct.pack(">QIII", _OPTION_REPLY, option, _ACK if known else _UNSUPPORTED, 0)
            connection.sendall(reply)
            if known:
                return option == _GO

    def _serve(self, connection: socket.socket) -> bool:
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", _take(connection, 28))
        if self._off.is_set():
            return False
        assert magic == _REQUEST
        answer, error = b"", 0
        if kind == _READ:
            answer = self._read(offset, length)
        elif kind == _WRITE:
            self._write(offset, _take(connection, length), flushed=bool(flags & _FUA))
        elif kind == _FLUSH:
            self._flush()
        elif kind == _DISCONNECT:
            return False
        else:
            error = _EINVAL
        connection.sendall(struct.pack(">IIQ", _REPLY, error, handle) + answer)
        return True

    def _read(self, offset: int, length: int) -> bytes:
        first, last = offset // BLOCK, (offset + length - 1) // BLOCK
        content = bytearray(os.pread(self._base, (last - first + 1) * BLOCK, first * BLOCK))
        for block in range(first, last + 1):
            if changed := self._changed(block):
                content[(block - first) * BLOCK : (block - first + 1) * BLOCK] = changed
        return bytes(content[offset - first * BLOCK :][:length])

    def _changed(self, block: int) -> bytes | None:
        cached = self._cached.get(block)
        return cached[-1] if cached else self._stable.get(block)

    def _write(self, offset: int, data: bytes, *, flushed: bool) -> None:
        at = 0
        while at < len(data):
            block, inside = divmod(offset + at, BLOCK)
            part = data[at : at + BLOCK - inside]
            old = b"" if len(part) == BLOCK else self._read(block * BLOCK, BLOCK)
            new = old[:inside] + part + old[inside + len(part) :]
            if flushed:
                self._stable[block] = new
                self._cached.pop(block, None)
            else:
                self._cached.setdefault(block, []).append(new)
            at += len(part)

    def _flush(self) -> None:
        if self._off.wait(self._flush_s):
            raise ConnectionError
        self.flushes += 1
        for block, contents in self._cached.items():
            self._stable[block] = contents[-1]
        self._cached.clear()


def _take(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
