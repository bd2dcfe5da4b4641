"""Provisioning a board and undoing it: facts, checks, steps, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.install import answering
from toolchain.boards.local import LocalTransport
from toolchain.boards.provisioning.apply import apply_steps, become_root
from toolchain.boards.provisioning.checks import (
    account_is_ours,
    check_account,
    check_clock,
    check_folder,
    check_machine,
    check_root_wishes,
    check_wish,
)
from toolchain.boards.provisioning.facts import Facts, read_facts
from toolchain.boards.provisioning.parcels import parcels_for
from toolchain.boards.provisioning.steps import Step, Wish, install_steps, removal_steps, root_steps
from toolchain.errors import ToolchainError, UsageError

Told = Callable[[str], None]
Ask = Callable[[], str]


@dataclass(frozen=True)
class Provisioned:
    """What provisioning found and did.

    Attributes
    ----------
    steps
        What was missing; empty when the board was ready already.
    done
        The steps were done; False for a dry run.
    skipped
        What was wished for and left out, each with the reason.
    warnings
        What is not as it should be, though it does no harm here.
    """

    board: str
    facts: Facts
    steps: tuple[Step, ...]
    done: bool
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was done on the board."""
        return self.done and bool(self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the result as `toolchain board provision --json` prints it."""
        return {
            "board": self.board,
            "changed": self.changed,
            "dry_run": not self.done,
            "steps": [
                {"title": step.title, "runs": str(step.action), "needs_root": step.needs_root}
                for step in self.steps
            ],
            "skipped": list(self.skipped),
            "warnings": list(self.warnings),
            "machine": self.facts.machine,
            "glibc": self.facts.glibc,
            "root": self.facts.root,
        }


def provision(
    board: Board,
    wish: Wish | None = None,
    *,
    dry_run: bool = False,
    ask_sudo: Ask | None = None,
    progress: Told | None = None,
) -> Provisioned:
    """Make a board ready: only what is missing is done, and `edge-rt` has answered at the end.

    Parameters
    ----------
    ask_sudo
        Asks the user for sudo's password on the board; called at most once, and only if a step needs it.
    progress
        Told of every step, and what happens while `edge-rt` is compiled, which takes minutes once.

    Raises
    ------
    UsageError
        A wish that this board cannot fulfil, or a board that has no system of its own.
    ToolchainError
        The board does not suit its class, is too full, read-only or far off the right time (nothing
        was written), or a step failed (the next run goes on from there).
    """
    wish, told = wish or Wish(), progress or (lambda _: None)
    check_wish(wish)
    _check_kind(board)
    facts = read_facts(board, wish.account)
    check_machine(board.name, board.profile, facts)
    check_root_wishes(board.name, facts, wish)
    warnings = check_clock(board.name, facts, ignore=wish.ignore_clock)
    parcels = parcels_for(board.profile, sdk=wish.sdk, progress=progress)
    check_folder(board.name, facts, parcels)

    steps, skipped = root_steps(facts, wish), []
    root = become_root(board, facts, ask_sudo if not dry_run else None) if _need_root(steps) else None
    if _need_root(steps) and root is None and not (dry_run and ask_sudo and facts.sudo == "password"):
        if wish.governor is not None and root_steps(facts, Wish(governor=wish.governor)):
            raise _no_root(board, facts, f"--governor {wish.governor}")
        steps = []
        skipped.append(
            f"--account {wish.account}: {facts.user} cannot become root on the board; "
            f"edge-rt is installed in {facts.root}"
        )
    steps += install_steps(facts, parcels)
    if not dry_run:
        apply_steps(board, steps, root, told)
        for parcel in parcels:
            if parcel.fingerprint:
                answering(board, parcel.files[0].remote, parcel.fingerprint)
    return Provisioned(board.name, facts, tuple(steps), not dry_run, tuple(skipped), tuple(warnings))


def unprovision(
    board: Board,
    *,
    account: str | None = None,
    dry_run: bool = False,
    ask_sudo: Ask | None = None,
    progress: Told | None = None,
) -> Provisioned:
    """Undo provisioning: end what runs there, restore the governor, remove all files of ours.

    Parameters
    ----------
    account
        Also remove this account, if provisioning made it.

    Raises
    ------
    UsageError
        The account is not of our making, or the board has no system of its own.
    ToolchainError
        It needs root and there is no way to it, or a step failed (the next run goes on from there).
    """
    check_account(account)
    _check_kind(board)
    facts = read_facts(board, account)
    if account is not None and facts.account is not None and not account_is_ours(facts):
        raise UsageError(
            f"--account {account}: board {board.name} had that account before; it is not removed",
            "leave the option out",
        )
    if account == facts.user:
        raise UsageError(
            f"--account {account}: that is the account this host logs in with",
            "log in with another that may use sudo: `user` of the board in toolchain.toml",
        )
    steps = removal_steps(facts, account)
    root = None
    if _need_root(steps):
        root = become_root(board, facts, ask_sudo if not dry_run else None)
        if root is None and not dry_run:
            raise _no_root(board, facts, "--remove, which undoes what was done as root")
    if not dry_run:
        apply_steps(board, steps, root, progress or (lambda _: None))
    return Provisioned(board.name, facts, tuple(steps), not dry_run)


def _check_kind(board: Board) -> None:
    transport = board.transport
    if isinstance(transport, LocalTransport) and transport.emulator:
        raise UsageError(
            f"board {board.name} is a process of this host: it came with its edge-rt, "
            "and has no system that could be provisioned",
            "boards over SSH and emulated boards of kind container can be",
        )


def _need_root(steps: list[Step]) -> bool:
    return any(step.needs_root for step in steps)


def _no_root(board: Board, facts: Facts, what: str) -> ToolchainError:
    if facts.sudo == "password":
        return ToolchainError(
            f"{what} needs root, and sudo asks {facts.user} for a password on board {board.name}; "
            "nothing was written",
            "give it: the same command with --ask-sudo",
        )
    return ToolchainError(
        f"{what} needs root, and {facts.user} has no sudo on board {board.name}; nothing was written",
        "log in with an account that may use sudo, or leave the option out",
    )
