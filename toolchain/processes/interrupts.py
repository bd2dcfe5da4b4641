"""Defers signals such as Ctrl-C while an interrupt would leave something behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def let_signals_end_waits() -> None:
    """Make signals interrupt the main thread's system calls again.

    z3, which TVM's arithmetic uses, restores SIGINT's handler in a way that makes the kernel restart system
    calls: without this, Ctrl-C takes effect only when a wait is over.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            signal.siginterrupt(number, True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals until the block ends.

    Needed around calls into TVM that call our code back: an interrupt in the callback becomes an anonymous
    RuntimeError or, if TVM does not expect the callback to fail, ends the process. Also needed to start a
    child: an interrupt inside `Popen` would leave a running child that nobody knows of.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs signal handlers only in the main thread
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
