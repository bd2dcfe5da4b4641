"""The boards as the page shows them. No board is connected to."""

from __future__ import annotations

from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import broken_boards, list_boards
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
        boards, broken = list_boards(), broken_boards()
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
    leases = [
        {"user": shortened(str(lease["user"] or "")), "held_s": round(lease["held_s"])}
        for lease in status.leases
        if lease["board"] == board.name or (not lease["board"] and lease["key"] == board.tracker_key)
    ]
    reason = shortened(there.reason) if there.reason else None
    return {**row, "lab": there.state, "reason": reason, "leases": leases}
