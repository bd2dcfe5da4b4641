"""Does planned steps on a board; those that need root use sudo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolchain.boards.board import Board
from toolchain.boards.provisioning.facts import Facts
from toolchain.boards.provisioning.steps import BoardStep, Put, Remove, RunCommand
from toolchain.boards.transport import Home, Transport
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line

_SECONDS = 120.0  # useradd on an SD card takes seconds; stopping running programs takes at most 3


@dataclass(frozen=True)
class Root:
    """How to run commands as root on one board.

    Only this object holds the password; it goes to sudo's standard input, never to a command line.
    """

    prefix: tuple[str, ...]
    password: str | None = field(default=None, repr=False)

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs `argv` as root."""
        return (*self.prefix, *argv)

    @property
    def input(self) -> bytes | None:
        """Standard input of the command: the password, if sudo needs it."""
        return None if self.password is None else self.password.encode() + b"\n"


def can_become_root(facts: Facts, ask: Callable[[], str] | None) -> bool:
    """Return whether root is reachable; a password that sudo may ask for is not tried."""
    return facts.sudo in ("root", "free") or (facts.sudo == "password" and ask is not None)


def no_root(board: Board, facts: Facts, what: str) -> ToolchainError:
    """Return the error for `what`, which needs root where `can_become_root` is false."""
    if facts.sudo == "password":
        return ToolchainError(
            f"{what} needs root, and sudo asks {facts.user} for a password on board {board.name}",
            "give it: the same command with --ask-sudo",
        )
    if facts.sudo == "terminal":
        return ToolchainError(
            f"{what} needs root, and sudo on board {board.name} works only at a terminal (requiretty)",
            f"let it work without: `Defaults:{facts.user} !requiretty` in /etc/sudoers "
            f"(`toolchain board shell {board.name}`, then `sudo visudo`); or leave the option out",
        )
    return ToolchainError(
        f"{what} needs root, and there is no sudo for {facts.user} on board {board.name}",
        "log in with an account that may use sudo, or leave the option out",
    )


def become_root(board: Board, home: Home, facts: Facts, ask: Callable[[], str] | None) -> Root:
    """Return how to become root on a board for which `can_become_root` is true.

    Parameters
    ----------
    ask
        Returns sudo's password from the user; called once, and only if sudo needs it.

    Raises
    ------
    UsageError
        sudo rejects the password.
    """
    if facts.sudo == "root":
        return Root(())
    if facts.sudo == "free":
        return Root(("sudo", "-n", "--"))
    assert ask is not None  # noqa: S101 - else it cannot become root
    # -k: sudo ignores a password that it remembers. It then always reads this one from its standard input
    # and never leaves it there for the command.
    root = Root(("sudo", "-S", "-k", "-p", "", "--"), ask())
    completed = home.transport.run(root.argv(("true",)), input=root.input)
    if completed.returncode != 0:
        raise UsageError(
            f"board {board.name}: sudo refuses {facts.user}: {last_line(completed.stderr)}; "
            "nothing was written",
            "type the password of that account on the board; is the account allowed to use sudo?",
        )
    return root


def apply_steps(
    board: Board, home: Home, steps: Sequence[BoardStep], root: Root | None, report: Callable[[str], None]
) -> None:
    """Do the steps in order.

    Raises
    ------
    ToolchainError
        A step failed; earlier steps stay done, and the next run continues after them.
    """
    for number, step in enumerate(steps, 1):
        report(f"{number}/{len(steps)} {step.title}")
        match step.action:
            case Put(content, remote, executable):
                board.transport.put(content, remote, executable=executable)
            case Remove(remote):
                board.transport.remove(remote)
            case RunCommand(argv):
                _run(board, home.transport if step.outside else board.transport, step, argv, root)


def _run(board: Board, way: Transport, step: BoardStep, argv: tuple[str, ...], root: Root | None) -> None:
    given = None
    if step.needs_root:
        assert root is not None  # noqa: S101 - such steps are not planned without root
        argv, given = root.argv(argv), root.input
    completed = way.run(argv, input=given, timeout=_SECONDS)
    if completed.returncode != 0:
        raise ToolchainError(
            f"board {board.name}: could not {step.title}: {last_line(completed.stderr)}",
            "the steps before it are done; run the same command again to go on",
        )
