"""What the engine reports of a push or pull: followed, put into words, given up on silence."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolchain.errors import ToolchainError

_SILENCE_SECONDS = 300.0  # the daemon reports several times a second while anything moves
_BETWEEN_SECONDS = 2.0  # between two lines of progress


def listen(
    events: Iterable[dict[str, Any]], name: str, progress: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Yield the events of a push or pull and tell how far it is.

    Raises
    ------
    ToolchainError
        The daemon reports an error, or nothing at all for minutes.
    """
    layers: dict[str, tuple[int, int]] = {}
    last, told = time.monotonic(), ""
    for event in _watched(events):
        if "error" in event:
            raise ToolchainError(str(event["error"]))
        detail = event.get("progressDetail") or {}
        if "total" in detail:
            layers[f"{event['status']} {event['id']}"] = (detail["current"], detail["total"])
            now, line = time.monotonic(), f"{name}: {_sum(event['status'], layers)}"
            if now - last >= _BETWEEN_SECONDS and line != told:
                progress(line)
                last, told = now, line
        yield event


def _sum(status: str, layers: dict[str, tuple[int, int]]) -> str:
    """Return how far all layers are that are in the same state, such as `Pushing`."""
    mine = [value for key, value in layers.items() if key.startswith(f"{status} ")]
    done, total = (sum(column) / 2**20 for column in zip(*mine, strict=True))
    return f"{status.lower()} {min(done, total):.0f} of {total:.0f} MiB"


def _watched(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pass events on; its reader is a thread, as the SDK waits for ever."""
    passed: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for event in events:
                passed.put(event)
            passed.put(None)
        except BaseException as error:
            passed.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            event = passed.get(timeout=_SILENCE_SECONDS)
        except queue.Empty as error:
            raise ToolchainError(f"Docker has reported nothing for {_SILENCE_SECONDS:g} s") from error
        if event is None:
            return
        if isinstance(event, BaseException):
            raise event
        yield event
