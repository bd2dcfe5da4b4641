"""Asks the lab (tracker and boards for measuring), if it runs, for the state of boards."""

from __future__ import annotations

from collections.abc import Callable


def ask_lab() -> Callable[[str], dict[str, str | None]]:
    """Ask the lab (tracker and boards for measuring), if it runs, for the state of its boards.

    Returns
    -------
    function
        Returns `lab` and `lab_user` for a board's name. `lab` is `no` for a board that is not in the lab;
        else `starting`, `away`, `free` or `leased` (by `lab_user`); `unknown` if the lab does not answer.
    """
    from toolchain.errors import ToolchainError
    from toolchain.rpc import lab

    try:
        found = lab.status()
    except ToolchainError:
        return lambda _: {"lab": "unknown", "lab_user": None}
    states = {name: board.state for name, board in found.boards.items()} if found else {}
    users = {str(lease["board"]): str(lease["user"]) for lease in found.leases} if found else {}

    def state_of(name: str) -> dict[str, str | None]:
        state = states.get(name, "no")
        if state == "serving":
            state = "leased" if name in users else "free"
        return {"lab": state, "lab_user": users.get(name)}

    return state_of
