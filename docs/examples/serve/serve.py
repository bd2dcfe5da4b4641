"""Serves inferences over a Unix socket, and changes to a new release without failing one: serve.c in Python.

EDGE_LIBRARY=sdk/current/libedge.so python3 serve.py CURRENT SHAPE SOCKET, such as
python3 serve.py field/counter/current 1x3x224x224 /run/edge-counter/socket
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from math import prod
from pathlib import Path
from types import FrameType


class Tensor(ctypes.Structure):  # edge_tensor
    _fields_ = (
        ("dtype", c_char_p),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("bytes", c_size_t),
    )


class Network:
    """An opened library with one input of float32."""

    def __init__(self, folder: Path, shape: list[int]) -> None:
        self.edge = ctypes.CDLL(os.environ.get("EDGE_LIBRARY") or "libedge.so")
        self.edge.edge_open.restype = c_void_p
        self.edge.edge_open.argtypes = [c_char_p, c_void_p]
        self.edge.edge_set_input.argtypes = [c_void_p, c_int, POINTER(Tensor)]
        self.edge.edge_run.argtypes = [c_void_p]
        self.edge.edge_output_count.argtypes = [c_void_p]
        self.edge.edge_output.argtypes = [c_void_p, c_int, POINTER(Tensor)]
        self.edge.edge_close.argtypes = [c_void_p]
        self.edge.edge_last_error.restype = c_char_p
        self.shape = (c_int64 * len(shape))(*shape)
        self.bytes = 4 * prod(shape)
        self.handle = self.edge.edge_open(os.fsencode(folder / "library.so"), None)
        self.check(0 if self.handle else 1)

    def check(self, status: int) -> None:
        """Raise an error with the library's own words when a call failed."""
        if status != 0:
            raise RuntimeError(self.edge.edge_last_error().decode())

    def infer(self, data: bytes) -> bytes:
        """Return the bytes of all outputs."""
        held = ctypes.create_string_buffer(data, self.bytes)
        given = Tensor(b"float32", len(self.shape), self.shape, ctypes.cast(held, c_void_p), self.bytes)
        self.check(self.edge.edge_set_input(self.handle, 0, ctypes.byref(given)))
        self.check(self.edge.edge_run(self.handle))
        outputs = []
        for index in range(self.edge.edge_output_count(self.handle)):
            found = Tensor()  # valid until the next run
            self.check(self.edge.edge_output(self.handle, index, ctypes.byref(found)))
            outputs.append(ctypes.string_at(found.data, found.bytes))
        return b"".join(outputs)

    def close(self) -> None:
        """Close the library."""
        self.edge.edge_close(self.handle)


ending = False


def end(_signal: int, _frame: FrameType | None) -> None:
    """Let the loops end after what they are doing."""
    global ending
    ending = True


def notify(state: str) -> None:
    """Tell systemd; its protocol is in sd_notify(3)."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)


def answer(network: Network, client: socket.socket) -> None:
    """Answer one request; the connection of one that failed ends without outputs."""
    client.settimeout(5)
    with suppress(OSError, RuntimeError), client:
        data = b""
        while len(data) < network.bytes:
            piece = client.recv(network.bytes - len(data))
            if not piece:
                return
            data += piece
        client.sendall(network.infer(data))


def work(listener: socket.socket, folder: Path, shape: list[int], ready: int) -> None:
    """Open a release's library, try it, and answer until told to end."""
    network = Network(folder, shape)
    network.infer(bytes(network.bytes))
    os.write(ready, b"\0")
    print(f"serve: {folder}", file=sys.stderr, flush=True)
    parent = os.getppid()
    while not ending and os.getppid() == parent:
        notify("WATCHDOG=1")
        # Python waits on after a signal; by then the next worker is there to answer.
        if select.select([listener], [], [], 0.5)[0] and not ending:
            with suppress(BlockingIOError):  # the other worker has taken it
                answer(network, listener.accept()[0])
    network.close()


def start(listener: socket.socket, folder: Path, shape: list[int]) -> int:
    """Return a worker for a release once it has answered a trial; 0 if it can't."""
    seen, ready = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(seen)
        status = 1
        try:
            work(listener, folder, shape, ready)
            status = 0
        except (OSError, RuntimeError) as error:
            print(f"serve: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    os.close(ready)
    tried = select.select([seen], [], [], 60)[0] and os.read(seen, 1)  # nothing: the worker has ended
    os.close(seen)
    if tried:
        return worker
    stop(worker, signal.SIGKILL)
    return 0


def stop(worker: int, how: int = signal.SIGTERM) -> None:
    """Let a worker finish what it has begun, and end."""
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(worker, how)
        os.waitpid(worker, 0)


def serve(current: Path, shape: list[int], path: str) -> None:
    """Hold the socket, and a worker for the release that `current` leads to."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    Path(path).unlink(missing_ok=True)
    worker, served, refused = 0, None, None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        listener.setblocking(False)
        while not ending:
            if worker and os.waitpid(worker, os.WNOHANG)[0] == worker:
                worker, served = 0, None
            if not worker:
                notify("WATCHDOG=1")  # there is nothing to serve yet; else the worker does
            now = current.resolve()  # once: what `current` leads to may change between two uses of it
            if now not in (served, refused) and now.exists():
                new = start(listener, now, shape)
                if new:
                    if worker:
                        stop(worker)
                    worker, served = new, now
                    notify("READY=1")
                else:
                    refused = now
            time.sleep(0.2)
        if worker:
            stop(worker)
    Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: serve.py CURRENT SHAPE SOCKET")
    serve(Path(sys.argv[1]), [int(extent) for extent in sys.argv[2].split("x")], sys.argv[3])
