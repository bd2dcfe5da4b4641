"""The state of an acceptance, kept on this host, so that a later call goes on with it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolchain.acceptance.document import MOST_BYTES, StepReport
from toolchain.boards.board import Board
from toolchain.configuration.settings import configuration, state_dir
from toolchain.files import atomic
from toolchain.files.plain import open_plain


class AcceptState(BaseModel):
    """The steps that ended, and the versions and the class with which they ran.

    Attributes
    ----------
    toolchain, edge_rt
        Versions with which the steps ran: with others nothing of it counts.
    record_class
        Class of the board, `+emulated` if it is.
    identity
        Digest that differs between boards which had the same name one after the other; empty if unknown.
    date
        Day on which it began.
    steps
        Steps that passed or missed, by name. Those that failed or were skipped are tried again.
    uploads
        Paths on the board that this program uploaded and did not remove yet.
    stem
        Name of the files with the results, without their endings; empty before they were written.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    schema_version: Literal[1] = 1
    toolchain: str
    edge_rt: str
    record_class: str
    identity: str
    date: str
    steps: dict[str, StepReport] = Field(default_factory=dict)
    uploads: tuple[str, ...] = ()
    stem: str = ""

    def like(self, other: AcceptState) -> bool:
        """Return whether this state has the versions, the class and the board of another one."""
        mine, its = ((s.toolchain, s.edge_rt, s.record_class, s.identity) for s in (self, other))
        return mine == its


def identity(board: Board) -> str:
    """Return a digest of the board's pinned host key; empty for a board of this host."""
    entry = configuration().boards.get(board.name)
    key = entry.host_key if entry is not None else None
    return hashlib.sha256(key.encode()).hexdigest()[:16] if key else ""


def state_file(board: str) -> Path:
    """Return the file with the state of a board's acceptance."""
    return state_dir() / "acceptance" / f"{board}.json"


def read_state(file: Path) -> AcceptState | None:
    """Return the state; None if the file is missing or unreadable."""
    try:
        with open_plain(file) as opened:
            return AcceptState.model_validate_json(opened.read(MOST_BYTES))
    except (OSError, ValidationError):
        return None


def begin_state(file: Path, fresh: AcceptState, *, again: bool) -> AcceptState:
    """Return the state to go on with: the kept one if its versions are the same, else the fresh one.

    Parameters
    ----------
    again
        Whether all steps are repeated.
    """
    kept = read_state(file)
    if kept is None:
        return fresh
    if again or not kept.like(fresh):
        return fresh.model_copy(update={"uploads": kept.uploads})
    return kept


def write_state(file: Path, state: AcceptState) -> None:
    """Write the state atomically.

    Raises
    ------
    ToolchainError
        The state folder cannot be written.
    """
    try:
        atomic.make_private_folder(file.parent)
    except OSError as error:
        raise atomic.cannot_write(file, error) from error
    atomic.write_text(file, state.model_dump_json(indent=2) + "\n", mode=0o600)
