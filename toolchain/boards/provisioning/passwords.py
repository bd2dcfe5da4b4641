"""Lets a board's sshd accept keys alone, and passwords again; never so that this host is locked out."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from toolchain.boards.board import Board
from toolchain.boards.provisioning.apply import become_root, can_become_root, no_root
from toolchain.boards.provisioning.facts import Facts, read_facts
from toolchain.boards.provisioning.how import How
from toolchain.boards.transport import Dialogue, Home, LostError
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line, printable

Passwords = Literal["on", "off"]

_SCRIPT = Path(__file__).with_name("passwords.sh").read_text()
_CONTENT = """# Written by `toolchain board provision --passwords off`; `--passwords on` removes it.
PasswordAuthentication no
KbdInteractiveAuthentication no
ChallengeResponseAuthentication no
"""
_ANSWER_S = 60.0
_AGAIN_S = 20.0  # a server that reads its configuration anew takes no connection for a moment
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class PasswordChange:
    """Whether passwords are accepted, by which file on the board, and whether that was changed now."""

    state: Passwords
    file: str | None
    changed: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def set_passwords(board: Board, wanted: Passwords, how: How) -> PasswordChange:
    """Let the board's sshd accept keys alone (`off`), or what its own configuration says (`on`).

    `off` needs a key that is proved by a new login before and after. The connection that changes the
    configuration stays open meanwhile; the board undoes the change unless it hears that the second login
    worked.

    Raises
    ------
    UsageError
        The board is not reached over SSH, no key logs in, or its sshd reads no drop-in files.
    ToolchainError
        There is no way to root, or the change failed and was undone.
    """
    if not board.transport.is_remote:
        raise UsageError(f"--passwords: board {board.name} is reached without a login", "leave it out")
    with board.transport.at_home() as home:
        facts = read_facts(board, home, None)
        if not can_become_root(facts, how.ask_sudo):
            raise no_root(board, facts, f"to turn passwords {wanted}")
        if wanted == "off":
            _prove_key(board, facts, 0)
        if how.dry_run:
            return PasswordChange(wanted, None, changed=False)
        return _change(board, home, facts, wanted, how)


def _change(board: Board, home: Home, facts: Facts, wanted: Passwords, how: How) -> PasswordChange:
    root = become_root(board, home, facts, how.ask_sudo)
    argv = root.argv(("sh", "-c", _SCRIPT, "sh", wanted, facts.user, _CONTENT))
    with closing(home.transport.talk(argv)) as dialogue:
        if root.input is not None:
            dialogue.send(root.input, _PATIENCE_S)
        word, file = _heard(dialogue)
        if word == "changed" and wanted == "off":
            word, file = _keep(board, facts, dialogue)
        if word not in ("kept", "changed", "same"):
            raise _refused(board, file or last_line(dialogue.errors()))
    if word == "changed":
        _prove_key(board, facts, _AGAIN_S)  # and wait until the server is there again
    return PasswordChange(wanted, file, changed=word != "same")


def _keep(board: Board, facts: Facts, dialogue: Dialogue) -> tuple[str, str]:
    """Let the board keep a change after which a key logs in, and undo another; return its last answer."""
    try:
        _prove_key(board, facts, _AGAIN_S)
    except ToolchainError as error:
        dialogue.send(b"undo\n", _PATIENCE_S)
        undone, _ = _heard(dialogue)
        raise ToolchainError(
            f"board {board.name}: no key logged in after passwords were off ({error.message}); "
            + ("that was undone" if undone == "undone" else "the board undoes it within a minute"),
            error.hint,
        ) from error
    dialogue.send(b"keep\n", _PATIENCE_S)
    return _heard(dialogue)


def _prove_key(board: Board, facts: Facts, again_s: float) -> None:
    """Log in anew, which only keys do; while the server is away, again for `again_s` seconds."""
    until = time.monotonic() + again_s
    while True:
        try:
            with closing(board.transport.as_user(facts.user)) as fresh, fresh.at_home() as home:
                if home.transport.run(["true"]).returncode == 0:
                    return
                raise ToolchainError(f"board {board.name}: the new login runs no commands")
        except LostError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.2)


def _heard(dialogue: Dialogue) -> tuple[str, str]:
    word, _, rest = printable(dialogue.read_line(_ANSWER_S).decode(errors="replace").strip()).partition(" ")
    return word, rest


def _refused(board: Board, why: str) -> ToolchainError:
    if "includes no drop-in files" in why:
        return UsageError(
            f"--passwords off: board {board.name}: {why}; nothing was changed",
            "OpenSSH 8.2 and newer: `Include /etc/ssh/sshd_config.d/*.conf` as its first line; else write "
            "`PasswordAuthentication no` there by hand",
        )
    return ToolchainError(
        f"board {board.name}: passwords were left as they are: {why}",
        f"look at its configuration: `toolchain board shell {board.name}`, then `sudo sshd -T`",
    )
