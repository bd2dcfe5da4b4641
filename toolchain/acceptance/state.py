"""The state of an acceptance, kept on this host, so that a later call goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolchain.acceptance.document import MOST_BYTES, StepReport
from toolchain.configuration.settings import state_dir
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
    date
        Day on which it began.
    steps
        Steps that passed or missed, by name. Those that failed or were skipped are tried again.
    there_before
        Entries of the board's folders before this program came, while files of ours may be among them.
    """

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    schema_version: Literal[1] = 1
    toolchain: str
    edge_rt: str
    record_class: str
    date: str
    steps: dict[str, StepReport] = Field(default_factory=dict)
    there_before: dict[str, tuple[str, ...]] | None = None

    def like(self, other: AcceptState) -> bool:
        """Return whether this state has the versions and the class of another one."""
        mine, its = ((s.toolchain, s.edge_rt, s.record_class) for s in (self, other))
        return mine == its


def state_file(board: str) -> Path:
    """Return the file with the state of a board's acceptance."""
    return state_dir() / "acceptance" / f"{board}.json"


def read_state(file: Path) -> AcceptState | None:
    """Return the state; None if there is none that can be read."""
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
        return fresh.model_copy(update={"there_before": kept.there_before})  # files may still be on the board
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
