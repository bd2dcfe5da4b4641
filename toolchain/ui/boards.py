"""The boards as the page shows them. No board is connected to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import shown_boards
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.foreign import shortened
from toolchain.rpc import lab
from toolchain.rpc.lab import LabStatus


def board_rows() -> dict[str, Any]:
    """Return the boards with their state in the lab and their leases; and why something is unknown."""
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
    there = status.boards[board.name]
    reason = shortened(there.reason) if there.reason else None
    return {
        **row,
        "lab": there.state,
        "reason": reason,
        "leases": _users(board, status.leases, "held_s"),
        "waiting": _users(board, status.waiting, "waited_s"),
        "waits": _wait(there.waits) if there.waits else None,
    }


def _users(board: Board, entries: Sequence[Mapping[str, Any]], seconds: str) -> list[dict[str, Any]]:
    """Return the users of leases or requests for a board, or for any board of its key, with their seconds."""
    return [
        {"user": shortened(str(entry["user"] or "")), seconds: round(entry[seconds])}
        for entry in entries
        if entry["board"] == board.name or (not entry["board"] and entry["key"] == board.tracker_key)
    ]


def _wait(wait: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the lab's session waits for on the board, with the words of others shortened."""
    holder = wait["holder"]
    what = shortened(str(holder["what"])) if holder else None
    return {"what": what, "ahead": wait["ahead"], "waited_s": round(wait["waited_s"])}
