"""Ctrl-C and its like, held back for moments in which they would leave something behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def let_signals_end_waits() -> None:
    """Make signals end a wait that begins now, in the main thread.

    z3, which TVM's arithmetic asks, puts SIGINT's handler back by a call that has the kernel resume waits: a
    Ctrl-C is then seen when the wait is over.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            signal.siginterrupt(number, True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold signals back until the block ends; what they raise is raised then.

    For calls into TVM that call code of ours back: an interrupt that arises there becomes an unnamed
    RuntimeError, or, in a callback that TVM does not expect to fail, ends the process. And for the start
    of a child: an interrupt inside `Popen` leaves one that runs and that nobody knows.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread alone
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _ENDING}
    ours = [number for number, handler in handlers.items() if callable(handler)]
    for number in ours:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, handlers[number])
        if came:
            signal.raise_signal(came[0])
