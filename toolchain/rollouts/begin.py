"""Decides what a rollout does, before any board is touched; finds the one that was interrupted."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import UsageError
from toolchain.records.record import EMULATED
from toolchain.releases.signed import SignedRelease
from toolchain.releases.statement import Version
from toolchain.rollouts.events import BoardDone, GateJudged, JournalEvent, LabNumbers, RolloutBegan, Rules
from toolchain.rollouts.journal import beginning, is_complete, known_rollouts, read_journal
from toolchain.rollouts.outcome import WORKS, Outcome
from toolchain.rollouts.phases import cut
from toolchain.runtime import arch_of, ensure_runtime


def begin(signed: SignedRelease, boards: Sequence[Board], rules: Rules) -> RolloutBegan:
    """Return the first event of a new rollout.

    Raises
    ------
    UsageError
        The phases do not fit the number of boards.
    """
    release, names = signed.release, [board.name for board in boards]
    phases = cut(names, rules.phases)
    first = set().union(*phases)
    return RolloutBegan(
        id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{release.app}-{release.version}-{secrets.token_hex(2)}",
        app=release.app,
        version=release.version,
        digest=signed.digest,
        lab=lab_of(signed),
        phases=tuple(map(tuple, phases)),
        left=tuple(name for name in names if name not in first),
        rules=rules,
    )


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


@dataclass(frozen=True)
class Course:
    """How far a rollout has come: outcomes by board, and the phases after which it went on."""

    began: RolloutBegan
    boards: dict[str, Board]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    passed: frozenset[int] = frozenset()


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
    return Course(began, boards, outcomes_of(events), passed_phases(events))


def prepare_programs(boards: Iterable[Board], progress: Callable[[str], None]) -> None:
    """Compile each `edge-rt` that the boards need, before many threads want it."""
    for profile in {arch_of(board.profile): board.profile for board in boards}.values():
        ensure_runtime(arch_of(profile), progress=progress)


def outcomes_of(events: Sequence[JournalEvent]) -> dict[str, Outcome]:
    """Return the last outcome of each board in a journal."""
    return {event.board: event.outcome for event in events if isinstance(event, BoardDone)}


def passed_phases(events: Sequence[JournalEvent]) -> frozenset[int]:
    """Return the phases whose last gate in a journal was passed."""
    gates = {event.phase: event.passed for event in events if isinstance(event, GateJudged)}
    return frozenset(phase for phase, passed in gates.items() if passed)


def _failed(events: Sequence[JournalEvent]) -> bool:
    return any(outcome.state not in WORKS for outcome in outcomes_of(events).values())
