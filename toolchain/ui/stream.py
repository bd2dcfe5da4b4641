"""The stream of server-sent events that the page reads: event logs as they grow, and the boards."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import shown_boards
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.events.lines import LINE, Line
from toolchain.events.log import Follower
from toolchain.foreign import shortened
from toolchain.rpc import lab
from toolchain.rpc.lab import LabStatus

# The boards as the page shows them. No board is connected to.


def board_rows() -> dict[str, Any]:
    """Return the boards with their lab states and leases, and the reason why something is unknown."""
    configuration.cache_clear()  # `toolchain board add` may have changed the file
    problem = ""
    try:
        status = lab.status()
    except ToolchainError as error:
        status, problem = None, str(error)
    try:
        boards, broken = shown_boards()
    except ToolchainError as error:
        return {"boards": [], "lab": status is not None, "problem": shortened(str(error))}
    rows = [_row(board, status) for board in boards]
    rows += [{"name": name, "problem": shortened(str(error))} for name, error in broken.items()]
    return {"boards": rows, "lab": status is not None, "problem": shortened(problem)}


def _row(board: Board, status: LabStatus | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": board.name,
        "class": board.profile.name,
        "emulated": board.emulated,
        "device": board.only_device,
    }
    if status is None or board.name not in status.boards:
        return row
    state = status.boards[board.name]
    reason = shortened(state.reason) if state.reason else None
    return {
        **row,
        "lab": state.state,
        "reason": reason,
        "leases": _users(board, status.leases, "held_s"),
        "waiting": _users(board, status.waiting, "waited_s"),
        "waits": _wait(state.waits) if state.waits else None,
    }


def _users(board: Board, entries: Sequence[Mapping[str, Any]], seconds: str) -> list[dict[str, Any]]:
    """Return the users of leases or requests for a board, or for any board of its key, with their seconds."""
    return [
        {"user": shortened(str(entry["user"] or "")), seconds: round(entry[seconds])}
        for entry in entries
        if entry["board"] == board.name or (not entry["board"] and entry["key"] == board.tracker_key)
    ]


def _wait(wait: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the lab's session waits for on the board; texts of other processes are shortened."""
    holder = wait["holder"]
    what = shortened(str(holder["what"])) if holder else None
    return {"what": what, "ahead": wait["ahead"], "waited_s": round(wait["waited_s"])}


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
