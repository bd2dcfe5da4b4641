"""Takes boards back to the release before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install as install_edge_rt
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.rollouts import edge
from toolchain.rollouts.attempt import verdict
from toolchain.rollouts.exchange import Told
from toolchain.rollouts.fleet import ask_each
from toolchain.rollouts.outcome import Outcome


def roll_back(
    boards: Sequence[Board], app: str | None, at_once: int, tell: Callable[[str, Outcome], None]
) -> dict[str, Outcome]:
    """Take boards back, `at_once` at the same time; return the outcomes by the boards' names.

    Parameters
    ----------
    app
        The application; None if boards have one only.
    tell
        Called with each board's name and outcome, from several threads.
    """

    def one(board: Board) -> Outcome:
        began = time.monotonic()
        outcome = _outcome(board, app).model_copy(update={"seconds": round(time.monotonic() - began, 3)})
        tell(board.name, outcome)
        return outcome

    return dict(zip((b.name for b in boards), ask_each(boards, one, at_once), strict=True))


def _outcome(board: Board, app: str | None) -> Outcome:
    try:
        program = install_edge_rt(board).program
        line = edge.roll_back(board, program, app or _only_app(board, program), Told())
    except LostError as error:
        return Outcome(state="offline", error=error.message, hint=error.hint)
    except ToolchainError as error:
        return Outcome(state="failed", error=error.message, hint=error.hint)
    said = verdict(line, board)
    version = line.version if said.state in ("rolled-back", "installed", "unchanged") else None
    return Outcome(
        state=said.state, version=version, error=said.error, hint=said.hint, test=said.test, cause=said.cause
    )


def _only_app(board: Board, program: str) -> str:
    apps = [each.app for each in edge.ask_status(board, program).apps]
    if len(apps) == 1:
        return apps[0]
    raise ToolchainError(
        f"board {board.name} has " + (f"the applications {', '.join(apps)}" if apps else "no application"),
        "say which: --app APP" if apps else f"`toolchain deploy BUNDLE --board {board.name}` installs one",
    )
