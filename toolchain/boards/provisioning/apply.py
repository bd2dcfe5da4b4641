"""Does the steps on a board; those that need root, through sudo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolchain.boards.board import Board
from toolchain.boards.provisioning.facts import Facts
from toolchain.boards.provisioning.steps import Put, Remove, Run, Step
from toolchain.boards.transport import Home, Transport
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import last_line

_SECONDS = 120.0  # useradd on an SD card takes seconds; stopping what runs takes at most 3


@dataclass(frozen=True)
class Root:
    """How commands become root's on one board.

    The password lives in this object alone; it goes to sudo's standard input, never to a command line.
    """

    prefix: tuple[str, ...]
    password: str | None = field(default=None, repr=False)

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command that runs `argv` as root."""
        return (*self.prefix, *argv)

    @property
    def input(self) -> bytes | None:
        """What the command gets on its standard input."""
        return None if self.password is None else self.password.encode() + b"\n"


def can_become_root(facts: Facts, ask: Callable[[], str] | None) -> bool:
    """Return whether there is a way to become root, as far as it can be known without a password."""
    return facts.sudo in ("root", "free") or (facts.sudo == "password" and ask is not None)


def become_root(board: Board, home: Home, facts: Facts, ask: Callable[[], str] | None) -> Root:
    """Return how to become root on a board where `can_become_root`.

    Parameters
    ----------
    ask
        Asks the user for sudo's password; called once, and only if sudo wants one.

    Raises
    ------
    UsageError
        sudo refuses the password.
    """
    if facts.sudo == "root":
        return Root(())
    if facts.sudo == "free":
        return Root(("sudo", "-n", "--"))
    assert ask is not None  # noqa: S101 - else it cannot become root
    # -k: also where sudo remembers an earlier password, so that it always reads this one from its
    # input and never leaves it to the command.
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
    board: Board, home: Home, steps: Sequence[Step], root: Root | None, told: Callable[[str], None]
) -> None:
    """Do the steps in their order.

    Raises
    ------
    ToolchainError
        A step failed; those before it stay done, and the next run goes on from there.
    """
    for number, step in enumerate(steps, 1):
        told(f"{number}/{len(steps)} {step.title}")
        match step.action:
            case Put(content, remote, executable):
                board.transport.put(content, remote, executable=executable)
            case Remove(remote):
                board.transport.remove(remote)
            case Run(argv):
                _run(board, home.transport if step.outside else board.transport, step, argv, root)


def _run(board: Board, way: Transport, step: Step, argv: tuple[str, ...], root: Root | None) -> None:
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
