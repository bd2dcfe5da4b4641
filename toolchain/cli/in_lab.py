"""Whether boards are in the running lab, for commands that tell of boards."""

from __future__ import annotations

from collections.abc import Callable


def lab_places() -> Callable[[str], dict[str, str | None]]:
    """Ask the running lab, if there is one; return what says of each board where it is.

    `lab` is `no`, or in the lab `starting`, `away`, `free` or `leased` (to `lab_user`), or `unknown` where
    the lab does not answer.
    """
    from toolchain.errors import ToolchainError
    from toolchain.rpc import lab

    try:
        found = lab.status()
    except ToolchainError:
        return lambda _: {"lab": "unknown", "lab_user": None}
    states = {name: board.state for name, board in found.boards.items()} if found else {}
    users = {str(lease["board"]): str(lease["user"]) for lease in found.leases} if found else {}

    def place(name: str) -> dict[str, str | None]:
        state = states.get(name, "no")
        if state == "serving":
            state = "leased" if name in users else "free"
        return {"lab": state, "lab_user": users.get(name)}

    return place
