"""The stream of server-sent events that the page reads: event logs as they grow, and the boards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.events.follow import Follower
from toolchain.events.lines import LINE, Line
from toolchain.foreign import shortened
from toolchain.ui.boards import board_rows

POLL_S = 0.4
"""Seconds between two looks at the logs."""

BOARDS_S = 3.0
"""Seconds between two looks at the boards."""

_PING_S = 10.0  # a browser that went away without a word is noticed by writing to it


async def send_events(
    send: Callable[[bytes], Awaitable[None]], is_gone: Callable[[], bool], folder: Path
) -> None:
    """Send all logs of a folder, then their new lines and the boards until the reader is gone.

    A reader that connects again gets everything again after `reset`; `ready` tells that what comes next is
    new.
    """
    await send(b"retry: 2000\n\n" + _message("reset", {}))
    follower = Follower(folder)
    boards = asyncio.create_task(_send_boards(send))
    try:
        is_ready = False
        spoke = time.monotonic()
        while not is_gone():
            if boards.done():
                boards.result()  # raises what ended it
            found = await asyncio.to_thread(follower.read)
            for name, lines in found.items():
                await send(_lines(name, lines))
            for name in await asyncio.to_thread(follower.removed):
                await send(_message("removed", {"log": name}))
            if found:
                spoke = time.monotonic()
                continue
            if not is_ready:
                is_ready = True
                await send(_message("ready", {}))
            if time.monotonic() - spoke > _PING_S:
                spoke = time.monotonic()
                await send(b": still here\n\n")
            await asyncio.sleep(POLL_S)
    finally:
        boards.cancel()
        await asyncio.gather(boards, return_exceptions=True)


async def _send_boards(send: Callable[[bytes], Awaitable[None]]) -> None:
    last = b""
    while True:
        try:
            message = _message("boards", await asyncio.to_thread(board_rows))
        except (ToolchainError, OSError) as error:  # such as a state folder that cannot be written
            message = _message("boards", {"boards": [], "lab": False, "problem": shortened(str(error))})
        if message != last:
            await send(message)
            last = message
        await asyncio.sleep(BOARDS_S)


def _lines(name: str, lines: Sequence[Line]) -> bytes:
    listed = ",".join(LINE.dump_json(line).decode() for line in lines)
    return f'event: lines\ndata: {{"log":{json.dumps(name)},"lines":[{listed}]}}\n\n'.encode()


def _message(event: str, data: Mapping[str, Any]) -> bytes:
    """Return an event with data as JSON, which has no line ends."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
