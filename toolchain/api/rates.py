"""Chooses the rates by which code is made, a class's or a board's; measures boards and keeps their rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from toolchain.architectures.rates import BoardRates
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.inventory.rates import is_this_host, keep_rates, kept_rates, with_rates
from toolchain.errors import ToolchainError, UsageError
from toolchain.measuring.rates import BUSY_SHARE, measure_rates
from toolchain.runtime import arch_of
from toolchain.runtime.cache import is_compiled
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

Note = Callable[[str], None]
"""Receives a message for the user: what begins, or a warning."""


def with_chosen_rates(target: BuildFor, code: CodeOptions, note: Note) -> BuildFor:
    """Return the target of a build with the rates that `--rates` chooses in its profile.

    Raises
    ------
    UsageError
        The user asked for a board's rates, and there are none.
    """
    rates = _chosen(target.board, code, target.profile.name, note, emulated=target.emulated)
    if rates is None:
        return target
    return replace(target, profile=with_rates(target.profile, rates), rates="board")


def with_chosen_rates_of_all(boards: Sequence[Board], code: CodeOptions, note: Note) -> list[Board]:
    """Return boards with the rates that `--rates` chooses for the first: all boards get the same code.

    Raises
    ------
    UsageError
        The user asked for a board's rates, and there are none.
    """
    first = boards[0]
    name = None if first.name == first.profile.name else first.name  # a class in place of a board
    rates = _chosen(name, code, first.profile.name, note, emulated=first.emulated)
    if rates is None:
        return list(boards)
    return [replace(board, profile=with_rates(board.profile, rates), rates="board") for board in boards]


def _chosen(
    board: str | None, code: CodeOptions, board_class: str, note: Note, *, emulated: bool
) -> BoardRates | None:
    """Return the measured rates to use; None: those of the class."""
    if code.rates == "class":
        return None
    if board is None or emulated:
        if code.rates == "auto":
            return None
        what = f"{board} is emulated" if emulated else f"{board_class} is a board class"
        raise UsageError(
            f"--rates board: {what}, and only real boards are measured", "use --rates class, or name a board"
        )
    rates = kept_rates(board) or _of_this_host(board, code, note)
    if rates is None and code.rates == "board":
        raise UsageError(
            f"--rates board: the cores of board {board} were not measured", f"toolchain board probe {board}"
        )
    return rates


def _of_this_host(board: str, code: CodeOptions, note: Note) -> BoardRates | None:
    """Measure this host unless it was measured; None if the options forbid it or it fails."""
    if not is_this_host(board) or code.device_kind != "cpu":
        return None
    this_host = find_board(board)
    try:
        if code.rates == "auto" and not is_compiled(arch_of(this_host.profile)):
            return None  # that takes minutes, and every later step on this host does it, too
        return measure_and_keep(this_host, note)
    except ToolchainError as error:
        if code.rates == "board":
            raise
        note(f"warning: this host's cores are not measured, and its class's rates are used: {error.message}")
        return None


def measure_and_keep(board: Board, note: Note) -> BoardRates:
    """Measure a board's rates and store them; print where, and warn if other programs ran meanwhile."""
    note(f"measuring the cores of {board.name}: 3 s")
    rates = measure_rates(board, note)
    file = keep_rates(board, rates)
    note(f"{file} has them")
    if rates.cpu_share < BUSY_SHARE:
        note(
            f"warning: other programs ran on {board.name}, and it measured with {rates.cpu_share:.0%} of its "
            f"CPUs; when it is idle: toolchain board probe {board.name}"
        )
    return rates


def measure_if_unknown(board: Board, note: Note) -> None:
    """Measure and store the rates of a real board that has none; a failure is only a warning."""
    if board.emulated or kept_rates(board.name) is not None:
        return
    try:
        measure_and_keep(board, note)
    except ToolchainError as error:
        note(
            f"warning: its cores were not measured: {error.message}; "
            f"to try again: toolchain board probe {board.name}"
        )
