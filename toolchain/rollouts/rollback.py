"""Takes boards back to the release before."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install as install_edge_rt
from toolchain.boards.transport import LostError
from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError
from toolchain.events.rollouts import BoardDone, BoardOutcome, BoardState
from toolchain.files.atomic import make_private_folder, write_text
from toolchain.files.plain import read_plain
from toolchain.rollouts import installer
from toolchain.rollouts.attempt import outcome_of
from toolchain.rollouts.fleet import answers_of
from toolchain.rollouts.installer import AppStatus, Progress

_AGAIN = "the board may have gone back: `toolchain rollback` again goes on, and not one release further"
_KNOWN = ("rolled-back", "refused")  # ends after which nothing is left to be done


class Begun(BaseModel):
    """A rollback whose answer is not known yet: the release to be left, by its statement and its bundle."""

    model_config = ConfigDict(frozen=True)

    leaves: str
    digest: str | None


def roll_back(boards: Sequence[Board], app: str | None, at_once: int) -> Generator[BoardDone, None, None]:
    """Take boards back, `at_once` at the same time; yield their outcomes as they end.

    This host keeps what each board is to leave until the board has answered. So the same call after a link
    that broke, or after a crash of this host, goes on with it: no board goes back twice.

    Parameters
    ----------
    app
        The application; None if boards have one only.
    """

    def timed(board: Board) -> BoardOutcome:
        began = time.monotonic()
        outcome = _of_board(board, app)
        return outcome.model_copy(update={"seconds": round(time.monotonic() - began, 3)})

    for board, outcome in answers_of(boards, timed, at_once):
        yield BoardDone(board=board.name, phase=0, outcome=outcome)


def _of_board(board: Board, app: str | None) -> BoardOutcome:
    note: Path | None = None
    try:
        program = install_edge_rt(board).program
        status = installer.ask_status(board, program)
        app = app or _only_app(board, status.apps)
        note = _note_path(board, app)
        line = installer.roll_back(board, program, app, _leaves(status.find(app), note), Progress())
    except ToolchainError as error:
        state: BoardState = "offline" if isinstance(error, LostError) else "failed"
        is_begun = note is not None and note.exists()
        return BoardOutcome(state=state, error=error.message, hint=_AGAIN if is_begun else error.hint)
    if line.end in _KNOWN:
        note.unlink(missing_ok=True)
    outcome = outcome_of(line, board)
    return outcome.model_copy(update={"version": line.version}) if line.end == "rolled-back" else outcome


def _leaves(app: AppStatus | None, note: Path) -> str | None:
    """Return what the board is to leave, and keep it; None: the board itself ends what was cut there."""
    begun = _read(note)
    current = (app.statement or app.digest) if app else None
    if app is None or current is None:
        return None
    if app.state == "cut":
        return begun.leaves if begun else None
    if begun and begun.leaves != current and app.previous == begun.digest:
        return begun.leaves  # it went back, and nobody heard of it
    make_private_folder(state_dir())
    make_private_folder(note.parent)
    write_text(note, Begun(leaves=current, digest=app.digest).model_dump_json(), mode=0o600)
    return current


def _read(note: Path) -> Begun | None:
    try:
        return Begun.model_validate_json(read_plain(note))
    except (OSError, ValidationError):
        return None


def _note_path(board: Board, app: str) -> Path:
    return state_dir() / "rollbacks" / f"{quote(board.name, safe='')}.{app}.json"


def _only_app(board: Board, apps: Sequence[AppStatus]) -> str:
    names = [status.app for status in apps]
    if len(names) == 1:
        return names[0]
    raise ToolchainError(
        f"board {board.name} has " + (f"the applications {', '.join(names)}" if names else "no application"),
        "say which: --app APP" if names else f"`toolchain deploy BUNDLE --board {board.name}` installs one",
    )
