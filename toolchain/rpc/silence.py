"""Finds which process between a client and a board's server is not responding."""

from __future__ import annotations

from toolchain.errors import ToolchainError
from toolchain.rpc import control, state
from toolchain.rpc.client import TrackerClient

_ANSWER_S = 5.0


def who_is_silent(host: str, port: int, board: str) -> str:
    """Return a sentence about the process that is not responding, after a timeout of a board's server.

    Parameters
    ----------
    host, port
        The lab's tracker.
    board
        The board's name.
    """
    try:
        with TrackerClient(host, port) as tracker:
            tracker.summary()
        if state.read_state(state.folder()) is None:  # this process sees another part of the lab alone
            return f"the server of board {board} is silent"
        told = control.ask(state.folder(), {"do": "status"}, _ANSWER_S)["boards"].get(board, {})
    except ToolchainError as error:
        return f"the lab's own process is silent: {error.message}"
    return str(told.get("reason") or told.get("silent") or f"the server of board {board} is silent")
