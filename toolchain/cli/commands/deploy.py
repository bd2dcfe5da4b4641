"""`toolchain deploy`: installs a signed release on boards, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.options import Finite, bundle_argument
from toolchain.cli.output import emit, hold_places, note, output_options, table
from toolchain.cli.progress import end_as_failed, event_log
from toolchain.cli.rollouts.choose import Duration, chosen_boards, fleet_options

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.cli.rollouts.standing import RolloutStanding
    from toolchain.releases.export import Delivery
    from toolchain.rollouts.course import Course


@click.command()
@bundle_argument
@fleet_options
@click.option(
    "--trust",
    "trust_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Trust file: its first version goes to boards that trust nobody yet, successors to all.",
)
@click.option(
    "--phases",
    default="100%",
    show_default=True,
    metavar="N,P%,…",
    help="How many boards have the release after each phase, such as 1,10%,100%.",
)
@click.option("--pause", type=Duration(), default="0s", metavar="T", help="Wait between phases, such as 10m.")
@click.option(
    "--max-failures",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="End the rollout when more boards failed.",
)
@click.option(
    "--max-slowdown",
    type=Finite(min=0, min_open=True),
    default=1.5,
    show_default=True,
    metavar="X",
    help="Begin no other phase if the boards' median latency is more than X times the lab's, and more than "
    "--slack-ms above it.",
)
@click.option(
    "--slack-ms",
    type=Finite(min=0),
    default=1.0,
    show_default=True,
    metavar="T",
    help="Milliseconds above the lab's latency that --max-slowdown always allows. A board's self-test is a "
    "few runs after a cold start, in which a tiny network looks slow.",
)
@click.option(
    "--window",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="T",
    help="How long to try again on a board that is away, or whose link breaks.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with the last rollout of this release that was interrupted."
)
@click.option("--dry-run", is_flag=True, help="Say what each board would get, and why; change nothing.")
@click.option("--allow-unverified", is_flag=True, help="Also for real boards whose class never verified it.")
@click.option(
    "--allow-downgrade", is_flag=True, help="Also an older version, on boards whose policy.json allows it."
)
@output_options
def deploy(
    bundle: Path,
    board_names: tuple[str, ...],
    group: str | None,
    at_once: int,
    trust_file: Path | None,
    phases: str,
    pause: float,
    max_failures: int,
    max_slowdown: float,
    slack_ms: float,
    window: float,
    resume: bool,
    dry_run: bool,
    allow_unverified: bool,
    allow_downgrade: bool,
) -> None:
    """Install a signed release on boards, phase by phase.

    Each board checks signatures, version and class, tests the release, activates it, and goes back if
    anything fails. Exits with 1 if a board does not run the release at the end. The journal that is named at
    the end is what `--resume` and `toolchain report` read.
    """
    from toolchain.events.rollouts import Rules
    from toolchain.releases.export import Delivery
    from toolchain.releases.signed_release import open_release
    from toolchain.releases.trust import read_trust
    from toolchain.rollouts.course import (
        begin,
        check_newest,
        check_phases,
        check_verified,
        newest_known,
        resumed,
    )

    signed = open_release(bundle)
    trust = read_trust(trust_file) if trust_file else None
    newest = newest_known(signed)
    rules = Rules(
        phases=tuple(check_phases(phases)),
        pause_s=pause,
        max_failures=max_failures,
        max_slowdown=max_slowdown,
        slack_us=round(slack_ms * 1000),
        at_once=at_once,
        window_s=window,
    )
    boards = [] if resume and not (board_names or group) else chosen_boards(board_names, group)
    if not allow_downgrade:
        check_newest(signed, newest)
    delivery = Delivery(signed, trust, None if allow_downgrade else newest, allow_downgrade)
    if dry_run:
        _dry_run(boards, delivery, at_once)
        return
    if not allow_unverified:
        check_verified(signed, boards)
    _deploy(delivery, resumed(signed) if resume else begin(signed, boards, rules))


def _deploy(delivery: Delivery, course: Course) -> None:
    from toolchain.cli.rollouts.live import show_rollout, stop_on_signals
    from toolchain.cli.rollouts.standing import RolloutStanding
    from toolchain.events.lines import EndLine
    from toolchain.rollouts.carriers import carrier_of
    from toolchain.rollouts.journal import Journal, journal_path

    began, boards = course.began, [*course.boards.values()]
    carrier = carrier_of(boards)
    if len(began.phases) > 1:
        carrier.need("phases")
    hold_places(boards)
    carrier.prepare(boards, note)
    standing = RolloutStanding()
    with (
        Journal(journal_path(began.id)) as journal,
        event_log("deploy", f"{began.app} {began.version}", course.boards) as log,
        show_rollout(standing, log) as show,
    ):
        with (
            stop_on_signals(note) as signals,
            closing(journal.keep(carrier.send(delivery, course, signals.stop))) as events,
        ):
            for event in chain(course.history(), events):
                show(event)
        if signals.number is not None:
            log.end(EndLine(how="interrupted", message=standing.reason))
        elif not standing.all_work:
            end_as_failed(log, standing.reason or "a board does not run the release")
    emit(_document(standing, journal.path), lambda: _show(standing, journal.path))
    if not standing.all_work:
        click.get_current_context().exit(1 if signals.number is None else 128 + signals.number)


def _document(standing: RolloutStanding, path: Path) -> dict[str, Any]:
    began = standing.began
    return {
        "release": {"app": began.app, "version": began.version, "digest": began.digest},
        "boards": [
            {"name": end.board, "phase": end.phase, **end.outcome.model_dump(mode="json")}
            for end in standing.ends()
        ],
        "complete": standing.complete,
        "reason": standing.reason,
        "journal": str(path),
    }


def _show(standing: RolloutStanding, path: Path) -> None:
    ends = standing.ends()
    table(
        ["BOARD", "PHASE", "STATE", "VERSION", "LATENCY", "SECONDS", "BYTES SENT", "ERROR"],
        [
            (
                end.board,
                end.phase,
                end.outcome.state,
                end.outcome.version,
                f"{end.outcome.test.latency_us / 1e3:.4g} ms" if end.outcome.test else None,
                f"{end.outcome.seconds:.1f}",
                end.outcome.bytes_sent,
                end.outcome.error,
            )
            for end in ends
        ],
    )
    for hint in sorted({end.outcome.hint for end in ends if end.outcome.hint}):
        note(f"hint: {hint}")
    click.echo(f"journal: {path}")
    if not standing.complete:
        note(f"the rollout ended: {standing.reason}; `toolchain deploy BUNDLE --resume` goes on with it")


def _dry_run(boards: Sequence[Board], delivery: Delivery, at_once: int) -> None:
    from toolchain.rollouts.carriers import carrier_of

    plans = carrier_of(boards).preview(delivery, boards, at_once)
    release = delivery.signed.release
    document = {
        "release": {"app": release.app, "version": release.version, "digest": delivery.signed.digest},
        "boards": [plan.to_json() for plan in plans],
    }
    headers = ["BOARD", "WOULD", "RUNS", "AT MOST BYTES", "REASON"]
    rows = [(plan.name, plan.action, plan.version, plan.bytes, plan.reason) for plan in plans]
    emit(document, lambda: table(headers, rows))
