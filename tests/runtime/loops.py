"""A program of its own: parallel loops by libedge.so, asked for as generated code does.

Arguments: libedge.so, a network's library, threads, spin_us. Prints one JSON document.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p, sizeof
from typing import Any

PATIENCE_S = 60.0


class Options(Structure):
    """`edge_options`."""

    _fields_ = (
        ("size", c_size_t),
        ("cluster", c_char_p),
        ("requires_", c_char_p),
        ("threads", c_int),
        ("spin_us", c_int),
        ("device", c_char_p),
        ("device_folder", c_char_p),
        ("pad", c_size_t),
    )


class Environment(Structure):
    """`TVMParallelGroupEnv`."""

    _fields_ = (("sync_handle", c_void_p), ("pieces", c_int32))


class Error(Structure):
    """The beginning of a `TVMFFIObject` that is an error."""

    _fields_ = (
        ("header", ctypes.c_uint8 * 24),
        ("kind", c_char_p),
        ("kind_bytes", c_size_t),
        ("message", c_char_p),
        ("message_bytes", c_size_t),
    )


BODY = ctypes.CFUNCTYPE(c_int, c_int, POINTER(Environment), c_void_p)


def main(library: str, network: str, threads: int, spin_us: int) -> dict[str, Any]:
    """Run the loops; return what was seen of each."""
    edge = ctypes.CDLL(library)
    edge.edge_open.restype = c_void_p

    def configure(threads: int) -> None:
        options = Options(sizeof(Options), None, None, threads, spin_us, None)
        assert edge.edge_open(network.encode(), byref(options))

    configure(threads)

    def loop(pieces: int, body: Callable[[int, int], int | None]) -> int:
        def call(piece: int, environment: Any, _: object) -> int:
            return body(piece, environment.contents.pieces) or 0

        return int(edge.TVMBackendParallelLaunch(BODY(call), None, pieces))

    def seen(pieces: int) -> list[int]:
        values: list[tuple[int, int]] = []
        assert loop(pieces, lambda *piece: values.append(piece)) == 0
        assert {total for _, total in values} == {len(values)}
        return sorted(piece for piece, _ in values)

    def nested() -> list[int]:
        values: list[int] = []

        def inside(_piece: int, _total: int) -> int:
            return loop(3, lambda piece, _: values.append(piece))

        assert loop(4, inside) == 0
        return sorted(values)

    def workers(threads: int = threads) -> int:
        values = set()
        deadline = time.monotonic() + PATIENCE_S

        def body(_piece: int, _total: int) -> None:
            values.add(threading.get_ident())
            time.sleep(0.01)  # for more threads than there should be
            while len(values) < threads and time.monotonic() < deadline:
                time.sleep(0.001)

        loop(4 * threads, body)
        return len(values)

    def held_up() -> bool:
        """Whether pieces wait for the thread that computes the first one."""
        others = threading.Semaphore(0)
        late: list[int] = []

        def body(piece: int, total: int) -> None:
            if piece == 0:
                late.extend(1 for _ in range(total - 1) if not others.acquire(timeout=PATIENCE_S))
            else:
                others.release()

        loop(0, body)
        return bool(late)

    def failure() -> tuple[int, str, str]:
        def body(piece: int, _total: int) -> int:
            if piece < 4:
                return 0
            edge.TVMFFIErrorSetRaisedFromCStr(b"ValueError", b"a piece is bad")
            return -1

        code = loop(9, body)
        error = POINTER(Error)()
        edge.TVMFFIErrorMoveFromRaised(byref(error))
        values = error.contents
        return code, values.kind.decode(), values.message.decode()

    def forked() -> list[int]:
        """How many threads a child process has, first as its parent and then with one more.

        It is forked while a loop runs.
        """
        running, release = threading.Event(), threading.Event()

        def body(_piece: int, _total: int) -> None:
            running.set()
            release.wait(PATIENCE_S)

        other = threading.Thread(target=loop, args=(1, body))
        other.start()
        assert running.wait(PATIENCE_S)
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(int(PATIENCE_S))
            values = [workers()]
            configure(threads + 1)
            os.write(send, json.dumps([*values, workers(threads + 1)]).encode())
            os._exit(0)
        os.close(send)
        release.set()
        other.join()
        os.waitpid(child, 0)
        with os.fdopen(receive) as answer:
            return list(json.loads(answer.read() or "[]"))

    def signalled() -> bool:
        """Whether a signal that this thread holds back reaches it, and no other; that would end us."""
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        os.kill(os.getpid(), signal.SIGUSR1)
        return signal.sigtimedwait([signal.SIGUSR1], PATIENCE_S) is not None

    document = {
        "pieces": {pieces: seen(pieces) for pieces in (0, 1, 2, 3, 7, 64)},
        "nested": nested(),
        "workers": workers(),
        "held_up": threads > 1 and held_up(),
        "failure": failure(),
        "after": seen(5),
        "forked": forked(),
        "signalled": signalled(),
    }
    before = time.process_time()
    time.sleep(0.3)
    return document | {"idle_s": time.process_time() - before}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
