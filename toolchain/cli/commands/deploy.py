"""`toolchain deploy`: installs a signed release on boards, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.options import Finite, bundle_argument
from toolchain.cli.output import emit, hold_places, note, output_options, table
from toolchain.cli.progress import end_as_failed, event_log
from toolchain.cli.rollouts.choose import Duration, chosen_boards, fleet_options

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.rollouts.attempt import Delivery
    from toolchain.rollouts.events import RolloutEnded
    from toolchain.rollouts.run import Rollout


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
    from toolchain.releases.signed import open_release
    from toolchain.releases.trust import read_trust
    from toolchain.rollouts.attempt import Delivery
    from toolchain.rollouts.begin import check_newest, check_verified, newest_known
    from toolchain.rollouts.events import Rules
    from toolchain.rollouts.phases import check_phases

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
    _deploy(delivery, boards, rules, resume=resume)


def _deploy(delivery: Delivery, boards: Sequence[Board], rules: Any, *, resume: bool) -> None:
    from toolchain.cli.rollouts.live import show_rollout
    from toolchain.cli.rollouts.standing import RolloutStanding
    from toolchain.events.lines import EndLine
    from toolchain.rollouts.begin import Course, begin, prepare_programs, resumed
    from toolchain.rollouts.journal import Journal, journal_path
    from toolchain.rollouts.run import Rollout
    from toolchain.rollouts.stopping import stop_on_signals

    if resume:
        at = resumed(delivery.signed)
    else:
        at = Course(begin(delivery.signed, boards, rules), {each.name: each for each in boards})
    began = at.began
    hold_places([*at.boards.values()])
    prepare_programs(at.boards.values(), note)
    standing = RolloutStanding()
    with (
        Journal(journal_path(began.id)) as journal,
        event_log("deploy", f"{began.app} {began.version}", at.boards) as log,
        show_rollout(standing, log) as tell,
    ):
        rollout = Rollout(began, at.boards, delivery, journal, tell, at.outcomes, at.passed)
        with stop_on_signals(rollout.stop, note) as asked:
            ended = rollout.run(resumed=resume)
        if asked.by is not None:
            log.end(EndLine(how="interrupted", message=ended.reason))
        elif not ended.complete or not rollout.all_work:
            end_as_failed(log, ended.reason or "a board does not run the release")
    emit(_document(rollout, ended, journal.path), lambda: _show(rollout, ended, journal.path))
    if not ended.complete or not rollout.all_work:
        click.get_current_context().exit(1 if asked.by is None else 128 + asked.by)


def _document(rollout: Rollout, ended: RolloutEnded, path: Path) -> dict[str, Any]:
    boards = [
        {"name": name, "phase": phase, **outcome.model_dump(mode="json")}
        for name, phase, outcome in rollout.rows()
    ]
    began = rollout.began
    return {
        "release": {"app": began.app, "version": began.version, "digest": began.digest},
        "boards": boards,
        "complete": ended.complete,
        "reason": ended.reason,
        "journal": str(path),
    }


def _show(rollout: Rollout, ended: RolloutEnded, path: Path) -> None:
    rows = rollout.rows()
    table(
        ["BOARD", "PHASE", "STATE", "VERSION", "LATENCY", "SECONDS", "BYTES SENT", "ERROR"],
        [
            (
                name,
                phase,
                outcome.state,
                outcome.version,
                f"{outcome.test.latency_us / 1e3:.4g} ms" if outcome.test else None,
                f"{outcome.seconds:.1f}",
                outcome.bytes_sent,
                outcome.error,
            )
            for name, phase, outcome in rows
        ],
    )
    for hint in sorted({outcome.hint for _, _, outcome in rows if outcome.hint}):
        note(f"hint: {hint}")
    click.echo(f"journal: {path}")
    if not ended.complete:
        note(f"the rollout ended: {ended.reason}; `toolchain deploy BUNDLE --resume` goes on with it")


def _dry_run(boards: Sequence[Board], delivery: Delivery, at_once: int) -> None:
    from toolchain.rollouts.fleet import preview

    found = preview(boards, delivery, at_once)
    release = delivery.signed.release
    document = {
        "release": {"app": release.app, "version": release.version, "digest": delivery.signed.digest},
        "boards": [each.to_json() for each in found],
    }
    headers = ["BOARD", "WOULD", "RUNS", "AT MOST BYTES", "REASON"]
    rows = [(each.name, each.action, each.version, each.bytes, each.reason) for each in found]
    emit(document, lambda: table(headers, rows))
