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
    from toolchain.cli.rollouts.standing import board_line
    from toolchain.events.rollouts import BoardDone
    from toolchain.rollouts.carriers import carrier_of

    boards = chosen_boards(board_names, group)
    carrier = carrier_of(boards)
    carrier.need("rollback")
    hold_places(boards)
    carrier.prepare(boards, note)
    ends: dict[str, BoardDone] = {}
    with event_log("rollback", app or "the release before", (board.name for board in boards)) as log:
        for end in carrier.roll_back(boards, app, at_once):
            log.write_rollout(end)
            note(board_line(end))
            ends[end.board] = end
        went_back = len(ends) == len(boards) and all(end.works for end in ends.values())
        if not went_back:
            end_as_failed(log, "a board did not go back")
    outcomes = {board.name: ends[board.name].outcome for board in boards if board.name in ends}
    rows = [{"name": name, **outcome.model_dump(mode="json")} for name, outcome in outcomes.items()]
    emit(
        {"boards": rows},
        lambda: table(
            ["BOARD", "STATE", "VERSION", "SECONDS", "ERROR"],
            [(n, o.state, o.version, f"{o.seconds:.1f}", o.error) for n, o in outcomes.items()],
        ),
    )
    if not went_back:
        click.get_current_context().exit(1)
