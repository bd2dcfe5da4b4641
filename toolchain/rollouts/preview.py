"""Finds out what a rollout would do to each board, and changes none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError
from toolchain.releases.version import Version
from toolchain.rollouts.attempt import Delivery, new_number
from toolchain.rollouts.fleet import ask_each, status_of


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
