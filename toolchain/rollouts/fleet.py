"""Asks the boards of a fleet what they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from toolchain.boards.board import Board, named
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.releases.statement import Version
from toolchain.rollouts.attempt import Delivery, ask_status, new_number
from toolchain.rollouts.outcome import AppThere, FieldStatus

_PROGRAM = re.compile(r"edge-rt-[0-9a-f]{12}")
Result = TypeVar("Result")


@dataclass(frozen=True)
class FleetRow:
    """One application of one board, or a board without any; the fields are those of the JSON document.

    Attributes
    ----------
    state
        `active`, `installing`, `cut` (an installation was interrupted), `broken`; of a board without an
        application `none`; `offline` if it cannot be reached, `failed` if it cannot be asked.
    since
        Time of the last change, in ISO 8601 and UTC.
    """

    name: str
    state: str
    app: str | None = None
    version: str | None = None
    digest: str | None = None
    previous: str | None = None
    since: str | None = None
    error: str | None = None
    trust: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return asdict(self)


def find_program(board: Board) -> str | None:
    """Return the path of the `edge-rt` on a board that was used last, None if it has none."""
    with named(board):
        there = board.transport.listing("bin")
    programs = [name for name in there if _PROGRAM.fullmatch(name)]
    return f"bin/{max(programs, key=lambda name: there[name].changed)}" if programs else None


def status_of(board: Board) -> FieldStatus | None:
    """Return what a board has, as its own edge-rt says; None if it has no edge-rt."""
    program = find_program(board)
    return ask_status(board, program) if program else None


def fleet_status(boards: Sequence[Board], at_once: int) -> list[FleetRow]:
    """Ask all boards, `at_once` at the same time; return their rows in the order of the boards."""
    return [row for rows in ask_each(boards, _rows, at_once) for row in rows]


def ask_each(boards: Sequence[Board], ask: Callable[[Board], Result], at_once: int) -> list[Result]:
    """Return `ask` of each board in their order, and close the connections; each question has deadlines."""

    def asked(board: Board) -> Result:
        try:
            return ask(board)
        finally:
            board.transport.close()

    with ThreadPoolExecutor(max(1, min(at_once, len(boards))), "fleet") as pool:
        return list(pool.map(asked, boards))


def lost_release(boards: Sequence[Board], app: str, version: str, at_once: int) -> list[str]:
    """Return the names of boards that answer, and do not run the release; silent ones prove nothing."""

    def runs_other(board: Board) -> bool:
        try:
            status = status_of(board)
        except ToolchainError:
            return False
        there = status.find(app) if status else None
        return there is None or there.version != version or there.state != "active"

    answers = ask_each(boards, runs_other, at_once)
    return [board.name for board, other in zip(boards, answers, strict=True) if other]


def _rows(board: Board) -> list[FleetRow]:
    try:
        status = status_of(board)
    except LostError as error:
        return [FleetRow(board.name, "offline", error=error.message)]
    except ToolchainError as error:
        return [FleetRow(board.name, "failed", error=error.message)]
    trust = status.trust.version if status and status.trust else None
    if not status or not status.apps:
        return [FleetRow(board.name, "none", trust=trust)]
    return [_row(board, status, app, trust) for app in status.apps]


def _row(board: Board, status: FieldStatus, app: AppThere, trust: int | None) -> FleetRow:
    error = f"{app.error.step}: {app.error.message}" if app.error else None
    if app.state == "installing" and status.at_work:
        error = f"process {status.at_work.pid} there is at work: {status.at_work.what}"
    return FleetRow(
        board.name, app.state, app.app, app.version, app.digest, app.previous, _time(app.since), error, trust
    )


def _time(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return None


# Finds out what a rollout would do to each board, and changes none.


@dataclass(frozen=True)
class Preview:
    """The action that a board would get, and why; it now runs `version`, and would get at most `bytes`."""

    name: str
    action: str
    reason: str
    version: str | None
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def preview(boards: Sequence[Board], delivery: Delivery, at_once: int) -> list[Preview]:
    """Ask the boards what they have; return what each would get."""
    return ask_each(boards, lambda board: _of_board(board, delivery), at_once)


def _of_board(board: Board, delivery: Delivery) -> Preview:
    release = delivery.signed.release
    head = len(delivery.head(board, new_number()))
    size = head + sum(release.sizes)

    def says(action: str, reason: str, version: str | None = None, sent: int = size) -> Preview:
        return Preview(board.name, action, reason, version, sent)

    if board.record_class not in release.classes:
        reason = f"its class {board.record_class} is not among {', '.join(release.classes)}"
        return says("refuse", reason, sent=0)
    try:
        status = status_of(board)
    except LostError as error:
        return says("retry", error.message)
    except ToolchainError as error:
        return says("retry", error.message)
    if (status is None or status.trust is None) and delivery.trust is None:
        return says("refuse", "it trusts nobody yet: give --trust FILE", sent=0)
    there = status.find(release.app) if status else None
    if there is None or there.version is None:
        return says("install", "it has none")
    same_bundle = there.digest == delivery.signed.digest and there.state == "active"
    if same_bundle and there.version == release.version:
        return says("nothing", "it runs this release", there.version, 0)
    if not delivery.downgrade and Version(release.version) < Version(there.newest or there.version):
        reason = f"it ran {there.newest or there.version}, which is newer"
        return says("refuse", reason, there.version, 0)
    return says("install", f"it runs {there.version}", there.version, head if same_bundle else size)
