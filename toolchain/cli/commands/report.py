"""`toolchain report`: plots of a tuning run or of a rollout."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, note, output_options
from toolchain.quantities import counted


@click.command()
@click.argument("path", metavar="[PATH]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--board",
    metavar="B",
    shell_complete=complete.boards,
    help="The last run on this board, or on boards of this class; default: on any.",
)
@click.option("--run", metavar="ID", help="Run to show, by the beginning of its id; default: the last one.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Page to write; default: tuning-ID.html or rollout-ID.html in the current folder.",
)
@output_options
def command(path: Path | None, board: str | None, run: str | None, output: Path | None) -> None:
    """Write the plots of a tuning run or of a rollout as an HTML page.

    PATH is a store of records, a file of `toolchain records export`, or the journal of a rollout (`.jsonl`,
    as `toolchain deploy` names it); default: your own records. An
    interrupted run has a page too. Records do not say how often the network computes each task; `toolchain
    tune --report` shows that.
    """
    note("drawing the plots")
    from toolchain.reports.runs import read_run
    from toolchain.reports.source import records_in
    from toolchain.reports.tuning import write_tuning_report
    from toolchain.rollouts.journal import is_journal

    if path is not None and path.suffix == ".jsonl" and run is None and board is None and is_journal(path):
        _write_rollout(path, output)
        return
    source = records_in(path, run, board)
    if source.skipped:
        note(f"warning: {source.skipped}")
    found = read_run(source.records, source.names, run)
    page = (output or Path(f"tuning-{found.id[:8]}.html")).absolute()
    write_tuning_report(page, found)
    document = {"report": str(page), "run": found.id, "tasks": len(found.tasks), "trials": found.trials}
    what = f"{counted(found.trials, 'trial')} of {counted(len(found.tasks), 'task')}"
    emit(document, lambda: click.echo(f"{page}: {what}"))


def _write_rollout(path: Path, output: Path | None) -> None:
    from toolchain.reports.rollout import write_rollout_report
    from toolchain.rollouts.journal import beginning, read_journal

    events = read_journal(path)
    began = beginning(events)
    page = (output or Path(f"rollout-{began.id}.html")).absolute()
    write_rollout_report(page, events)
    boards = sum(map(len, began.phases))
    document = {"report": str(page), "rollout": began.id, "boards": boards}
    emit(document, lambda: click.echo(f"{page}: {began.app} {began.version} to {counted(boards, 'board')}"))
