"""Ctrl-C during a rollout: the first one stops it gently, the second one at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Asked:
    """The number of the signal that stopped the rollout; None: none did."""

    by: int | None = None


@contextmanager
def stop_on_signals(stop: threading.Event, tell: Callable[[str], None]) -> Iterator[Asked]:
    """Set `stop` at the first signal that ends a program; the second one has its usual effect.

    Yields which signal it was. Signals that are ignored, as `nohup` does, stay ignored.
    """
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    kept = {number: signal.getsignal(number) for number in _SIGNALS}
    ours = {number: handler for number, handler in kept.items() if callable(handler)}

    def restore() -> None:
        for number, handler in ours.items():
            signal.signal(number, handler)

    def ask(number: int, _frame: FrameType | None) -> None:
        restore()
        asked.by = number
        stop.set()
        tell("stopping: boards that receive are left to be resumed, boards that test finish; again: at once")

    for number in ours:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        restore()
