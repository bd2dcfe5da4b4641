"""`toolchain rollback`: takes boards back to the release before."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, hold_places, note, output_options, table
from toolchain.cli.progress import end_as_failed, event_log
from toolchain.cli.rollouts.choose import chosen_boards, fleet_options


@click.command()
@fleet_options
@click.option("--app", metavar="APP", help="The application; default: the only one a board has.")
@output_options
def rollback(board_names: tuple[str, ...], group: str | None, at_once: int, app: str | None) -> None:
    """Take boards back to the release they ran before.

    A board tests that release before it is activated again. Exits with 1 if a board did not go back.
    """
    from toolchain.cli.rollouts.logged import outcome_line
    from toolchain.cli.rollouts.standing import board_line
    from toolchain.rollouts.back import roll_back
    from toolchain.rollouts.begin import prepare_programs
    from toolchain.rollouts.outcome import Outcome

    boards = chosen_boards(board_names, group)
    hold_places(boards)
    prepare_programs(boards, note)
    with event_log("rollback", app or "the release before", (each.name for each in boards)) as log:

        def tell(name: str, outcome: Outcome) -> None:
            log.write(outcome_line(name, outcome, works=outcome.state == "rolled-back"))
            note(board_line(name, outcome))

        found = roll_back(boards, app, at_once, tell)
        went_back = all(outcome.state == "rolled-back" for outcome in found.values())
        if not went_back:
            end_as_failed(log, "a board did not go back")
    rows = [{"name": name, **outcome.model_dump(mode="json")} for name, outcome in found.items()]
    emit(
        {"boards": rows},
        lambda: table(
            ["BOARD", "STATE", "VERSION", "SECONDS", "ERROR"],
            [(n, o.state, o.version, f"{o.seconds:.1f}", o.error) for n, o in found.items()],
        ),
    )
    if not went_back:
        click.get_current_context().exit(1)
