"""What `board status` looks at for it."""

from __future__ import annotations

from typing import Any

from toolchain.boards.edge_rt.answers import State
from toolchain.boards.edge_rt.status import Look


def hints(board: str, state: State, drivers: list[dict[str, Any]]) -> list[str]:
    del drivers
    return [f"{board} is in power mode {mode}" for mode in state.others["power_mode"]]


LOOK = Look("say power_mode MAXN", hints, ("power_mode",))
