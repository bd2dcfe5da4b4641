"""Takes boards back to the release before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, ValidationError

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install as install_edge_rt
from toolchain.boards.transport import LostError
from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError
from toolchain.files.atomic import make_private_folder, write_text
from toolchain.files.plain import read_plain
from toolchain.rollouts import attempt
from toolchain.rollouts.attempt import verdict
from toolchain.rollouts.fleet import ask_each
from toolchain.rollouts.outcome import AppThere, Outcome, Told

_AGAIN = "the board may have gone back: `toolchain rollback` again goes on, and not one release further"
_KNOWN = ("rolled-back", "refused")  # ends after which nothing is left to be done


class Begun(BaseModel):
    """A rollback whose answer is not known yet: the release to be left, by its statement and its bundle."""

    model_config = ConfigDict(frozen=True)

    leaves: str
    digest: str | None


def roll_back(
    boards: Sequence[Board], app: str | None, at_once: int, tell: Callable[[str, Outcome], None]
) -> dict[str, Outcome]:
    """Take boards back, `at_once` at the same time; return the outcomes by the boards' names.

    This host keeps what each board is to leave until the board has answered. So the same call after a link
    that broke, or after a crash of this host, goes on with it: no board goes back twice.

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
    note: Path | None = None
    try:
        program = install_edge_rt(board).program
        apps = attempt.ask_status(board, program).apps
        app = app or _only_app(board, apps)
        there = next((each for each in apps if each.app == app), None)
        note = _note_path(board, app)
        leaves = _leaves(there, note)
        line = attempt.roll_back(board, program, app, leaves, Told())
    except ToolchainError as error:
        state = "offline" if isinstance(error, LostError) else "failed"
        asked = note is not None and note.exists()
        return Outcome(state=state, error=error.message, hint=_AGAIN if asked else error.hint)
    if line.end in _KNOWN:
        note.unlink(missing_ok=True)
    said = verdict(line, board)
    version = line.version if said.state in ("rolled-back", "installed", "unchanged") else None
    return Outcome(
        state=said.state, version=version, error=said.error, hint=said.hint, test=said.test, cause=said.cause
    )


def _leaves(there: AppThere | None, note: Path) -> str | None:
    """Return what the board is to leave, and keep it; None: the board itself ends what was cut there."""
    begun = _read(note)
    current = (there.statement or there.digest) if there else None
    if there is None or current is None:
        return None
    if there.state == "cut":
        return begun.leaves if begun else None
    if begun and begun.leaves != current and there.previous == begun.digest:
        return begun.leaves  # it went back, and nobody heard of it
    make_private_folder(state_dir())
    make_private_folder(note.parent)
    write_text(note, Begun(leaves=current, digest=there.digest).model_dump_json(), mode=0o600)
    return current


def _read(note: Path) -> Begun | None:
    try:
        return Begun.model_validate_json(read_plain(note))
    except (OSError, ValidationError):
        return None


def _note_path(board: Board, app: str) -> Path:
    return state_dir() / "rollbacks" / f"{quote(board.name, safe='')}.{app}.json"


def _only_app(board: Board, apps: Sequence[AppThere]) -> str:
    names = [each.app for each in apps]
    if len(names) == 1:
        return names[0]
    raise ToolchainError(
        f"board {board.name} has " + (f"the applications {', '.join(names)}" if names else "no application"),
        "say which: --app APP" if names else f"`toolchain deploy BUNDLE --board {board.name}` installs one",
    )
