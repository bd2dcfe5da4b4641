"""Passes connections on to a server, and breaks each off one byte of answers later than the one before.

A process of its own: TVM's client waits for some answers with Python's lock in its hand.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from toolchain.rpc.frames import HOST


@contextmanager
def breaking_off(port: int) -> Iterator[int]:
    """Run this program before the server at `port`; yield its own port."""
    program = [sys.executable, "-m", "tests.rpc.breaking", str(port)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def _pass_on(client: socket.socket, port: int, answers: int) -> None:
    with client, socket.create_connection((HOST, port)) as server:
        asking = threading.Thread(target=_copy, args=(client, server))
        asking.start()
        _copy(server, client, answers)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        asking.join()


def _copy(source: socket.socket, sink: socket.socket, most: int = sys.maxsize) -> None:
    with suppress(OSError):
        while most and (piece := source.recv(min(most, 1 << 16))):
            sink.sendall(piece)
            most -= len(piece)


if __name__ == "__main__":
    with socket.create_server((HOST, 0)) as door:
        print(door.getsockname()[1], flush=True)
        answers = 0
        while True:
            _pass_on(door.accept()[0], int(sys.argv[1]), answers)
            answers += 1
