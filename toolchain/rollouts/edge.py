"""The commands of `edge-rt` that a rollout gives."""

from __future__ import annotations

import contextlib

from toolchain.answers import understood
from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.answers import check_output
from toolchain.boards.edge_rt.install import command
from toolchain.boards.transport import Completed
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.releases.envelope import Envelope
from toolchain.releases.signed import SignedRelease
from toolchain.rollouts.answers import FieldStatus, InstallLine
from toolchain.rollouts.exchange import Told, read_lines, send_release

_FIELD = ("--field", "field")  # on the board, below the installation's folder
_ANSWER_S = 60.0


def ask_status(board: Board, program: str) -> FieldStatus:
    """Return what the board at present has, and who is at work there."""
    with named(board):
        completed = board.transport.run([program, "status", *_FIELD], timeout=_ANSWER_S)
    _check(completed, board, "status")
    what = "the answer of `edge-rt status`"
    return understood(FieldStatus, check_output(completed, board.name, what), board.name, what)


def give_first_trust(board: Board, program: str, first: Envelope) -> None:
    """Give a board that trusts nobody its first trust.

    Raises
    ------
    ToolchainError
        The board has another trust, or does not accept this one; the message has its reason.
    """
    with named(board):
        completed = board.transport.run(
            [program, "trust", *_FIELD, "--first"], input=first.to_bytes(), timeout=_ANSWER_S
        )
    _check(completed, board, "trust")


def install(board: Board, program: str, signed: SignedRelease, head: bytes, told: Told) -> InstallLine:
    """Send a release to a board; return the last line. Errors are those of `send_release`."""
    with named(board):
        argv = command(program, "install", "-", *_FIELD, only_device=board.only_device)
        with contextlib.closing(board.transport.talk(argv)) as dialogue:
            return send_release(dialogue, signed, head, board.name, told)


def roll_back(board: Board, program: str, app: str, leaves: str | None, told: Told) -> InstallLine:
    """Let a board go back to the release before; return the last line. Errors as of `read_lines`.

    Parameters
    ----------
    leaves
        The statement of the release to be left: a board that has left it does nothing more. None: the board
        says itself what it leaves.
    """
    named_release = ("--leave", leaves) if leaves else ()
    with named(board):
        argv = command(
            program, "rollback", *_FIELD, "--app", app, *named_release, only_device=board.only_device
        )
        with contextlib.closing(board.transport.talk(argv)) as dialogue:
            *_, last = read_lines(dialogue, board.name, told)
            return last


def _check(completed: Completed, board: Board, verb: str) -> None:
    if completed.returncode:
        said = last_line(completed.stdout if completed.stdout.strip() else completed.stderr)
        kind = UsageError if verb == "trust" else ToolchainError
        raise kind(f"board {board.name}: `edge-rt {verb}` failed: {said}")
