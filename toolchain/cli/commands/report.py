"""`toolchain report`: plots of a tuning run."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.output import emit, note, output_options


@click.command()
@click.argument("path", metavar="[PATH]", required=False, type=click.Path(path_type=Path))
@click.option("--run", metavar="ID", help="Run to show, by the beginning of its id; default: the last one.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Page to write; default: tuning-ID.html in the current folder.",
)
@output_options
def command(path: Path | None, run: str | None, output: Path | None) -> None:
    """Write the plots of a tuning run as an HTML page.

    PATH is a store of records or a file of `toolchain records export`; default: your own records. An
    interrupted run has a page too. Records do not say how often the network computes each task; `toolchain
    tune --report` shows that.
    """
    from toolchain.reports.runs import read_run
    from toolchain.reports.source import records_in
    from toolchain.reports.tuning import write_tuning_report

    source = records_in(path, run)
    if source.skipped:
        note(f"warning: {source.skipped}")
    found = read_run(source.records, source.names, run)
    page = (output or Path(f"tuning-{found.id[:8]}.html")).absolute()
    write_tuning_report(page, found)
    document = {"report": str(page), "run": found.id, "tasks": len(found.tasks), "trials": found.trials}
    emit(document, lambda: click.echo(f"{page}: {found.trials} trials of {len(found.tasks)} tasks"))
