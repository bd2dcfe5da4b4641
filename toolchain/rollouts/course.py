"""The course of a rollout: its boards cut into phases, or how far an interrupted one came; its refusals."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError
from toolchain.events.rollouts import (
    AnyEvent,
    BoardDone,
    BoardOutcome,
    GateJudged,
    JournalEvent,
    LabNumbers,
    RolloutBegan,
    Rules,
)
from toolchain.quantities import counted
from toolchain.records.record import EMULATED
from toolchain.releases.signed_release import SignedRelease
from toolchain.releases.statement import Version
from toolchain.rollouts.journal import beginning, is_complete, known_rollouts, read_journal


@dataclass(frozen=True)
class Course:
    """The boards and rules of a rollout, and how far it has come.

    Attributes
    ----------
    boards
        All boards of the phases, by name.
    outcomes
        Outcomes of the boards that ended in an earlier command.
    passed
        Phases after which an earlier command went on to the next one.
    resumed
        Whether its journal has the beginning already.
    """

    began: RolloutBegan
    boards: Mapping[str, Board]
    outcomes: Mapping[str, BoardOutcome] = field(default_factory=dict)
    passed: frozenset[int] = frozenset()
    resumed: bool = False

    def history(self) -> list[AnyEvent]:
        """Return what an earlier command told: the beginning, and the boards that ended."""
        if not self.resumed:
            return []
        phases = {name: number for number, names in enumerate(self.began.phases, 1) for name in names}
        return [
            self.began,
            *(
                BoardDone(board=name, phase=phases[name], outcome=outcome)
                for name, outcome in self.outcomes.items()
            ),
        ]


# The boards of each phase.

_SHARE = re.compile(r"([1-9]\d{0,5})|([1-9]\d?|100)%")
_HINT = "such as --phases 1,10%,100%: how many boards have the release after each phase"


def check_phases(text: str) -> list[str]:
    """Return the shares of `--phases`, such as `1` and `10%`.

    Raises
    ------
    UsageError
        A share is neither a number nor a percentage.
    """
    shares = [share.strip() for share in text.split(",")]
    for share in shares:
        if not _SHARE.fullmatch(share):
            raise UsageError(f"--phases {text}: {share!r} is no number of boards", _HINT)
    return shares


def cut(boards: Sequence[str], shares: Sequence[str]) -> list[list[str]]:
    """Return the boards of each phase; phases that add no board are dropped.

    A percentage is rounded up, so that a phase never has less than it says. Boards beyond the last share
    are in no phase.

    Raises
    ------
    UsageError
        A share is smaller than the one before it.
    """
    phases, done = [], 0
    for share in shares:
        count = math.ceil(len(boards) * int(share[:-1]) / 100) if share.endswith("%") else int(share)
        upto = min(count, len(boards))
        if upto < done and count < done:
            raise UsageError(
                f"--phases {','.join(shares)}: {share} of {counted(len(boards), 'board')} is less than "
                "the share before",
                _HINT,
            )
        if upto > done:
            phases.append(list(boards[done:upto]))
            done = upto
    return phases


# The beginning, and what is refused before it.


def begin(signed: SignedRelease, boards: Sequence[Board], rules: Rules) -> Course:
    """Return the course of a new rollout.

    Raises
    ------
    UsageError
        The phases do not fit the number of boards.
    """
    release, names = signed.release, [board.name for board in boards]
    phases = cut(names, rules.phases)
    first = set().union(*phases)
    began = RolloutBegan(
        id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{release.app}-{release.version}-{secrets.token_hex(2)}",
        app=release.app,
        version=release.version,
        digest=signed.digest,
        lab=lab_of(signed),
        phases=tuple(map(tuple, phases)),
        left=tuple(name for name in names if name not in first),
        rules=rules,
    )
    return Course(began, {board.name: board for board in boards})


def lab_of(signed: SignedRelease) -> LabNumbers | None:
    """Return what the lab's verification measured, as the release says."""
    verified = signed.release.verified
    if verified is None:
        return None
    return LabNumbers(
        board_class=verified.board_class, error_ppb=verified.error_ppb, latency_us=verified.latency_us
    )


def check_verified(signed: SignedRelease, boards: Sequence[Board]) -> None:
    """Refuse a release for real boards that none of their kind verified.

    Raises
    ------
    UsageError
        No board verified it, or an emulated one alone did.
    """
    verified = signed.release.verified
    if verified is not None and not verified.board_class.endswith(EMULATED):
        return
    real = next((board for board in boards if not board.emulated), None)
    if real is not None:
        by = "by emulated boards alone" if verified else "by no board"
        classes = f" --classes {real.record_class}" if verified else ""
        raise UsageError(
            f"{signed.release.app} {signed.release.version} was verified {by}, and {real.name} is a real one",
            f"`toolchain verify {signed.bundle} --board {real.name}`; remove {signed.file}, since what is "
            f"signed cannot change; `toolchain release sign {signed.bundle} --key KEY --version VERSION "
            f"--expires DATE{classes}` with a newer version; or add --allow-unverified",
        )


def newest_known(signed: SignedRelease) -> str:
    """Return the newest version of the application among this release and all rollouts of this host."""
    versions = [began.version for _, began in known_rollouts(signed.release.app)]
    return max([Version(signed.release.version), *map(Version, versions)]).text


def check_newest(signed: SignedRelease, newest: str) -> None:
    """Refuse an older version than this host has rolled out.

    Raises
    ------
    UsageError
        There is a newer one.
    """
    if Version(signed.release.version) < Version(newest):
        raise UsageError(
            f"{signed.release.app} {signed.release.version} is older than {newest}, which this host knows",
            "--allow-downgrade installs it on boards whose policy.json allows that; to go back to what a "
            "board had before: `toolchain rollback`",
        )


def find_interrupted(signed: SignedRelease) -> tuple[Path, list[JournalEvent]]:
    """Return the newest rollout of this release that did not come to its end, with its events.

    Raises
    ------
    UsageError
        There is none.
    """
    for path, began in known_rollouts(signed.release.app):
        if (began.digest, began.version) != (signed.digest, signed.release.version):
            continue  # of another bundle, or of another statement of this one
        try:
            events = read_journal(path)
        except UsageError:
            continue  # it is damaged behind its first line
        if not is_complete(events) or _failed(events):
            return path, events
    raise UsageError(
        f"--resume: no rollout of {signed.release.app} {signed.release.version} was interrupted here",
        "leave out --resume to begin one",
    )


def resumed(signed: SignedRelease) -> Course:
    """Return how far the rollout has come that is to go on.

    Raises
    ------
    UsageError
        There is none, or one of its boards is no longer known.
    """
    _, events = find_interrupted(signed)
    began = beginning(events)
    boards = {name: find_board(name) for phase in began.phases for name in phase}
    return Course(began, boards, outcomes_of(events), passed_phases(events), resumed=True)


def outcomes_of(events: Sequence[JournalEvent]) -> dict[str, BoardOutcome]:
    """Return the last outcome of each board in a journal."""
    return {event.board: event.outcome for event in events if isinstance(event, BoardDone)}


def passed_phases(events: Sequence[JournalEvent]) -> frozenset[int]:
    """Return the phases whose last gate in a journal was passed."""
    gates = {event.phase: event.passed for event in events if isinstance(event, GateJudged)}
    return frozenset(phase for phase, passed in gates.items() if passed)


def _failed(events: Sequence[JournalEvent]) -> bool:
    return any(not outcome.works for outcome in outcomes_of(events).values())
