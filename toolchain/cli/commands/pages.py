"""`toolchain report` and `toolchain ui`: pages for a web browser."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from toolchain.cli import complete
from toolchain.cli.output import emit, note, output_options
from toolchain.errors import UsageError
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
def report(path: Path | None, board: str | None, run: str | None, output: Path | None) -> None:
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
    tuning_run = read_run(source.records, source.names, run)
    page = (output or Path(f"tuning-{tuning_run.id[:8]}.html")).absolute()
    write_tuning_report(page, tuning_run)
    document = {
        "report": str(page),
        "run": tuning_run.id,
        "tasks": len(tuning_run.tasks),
        "trials": tuning_run.trials,
    }
    what = f"{counted(tuning_run.trials, 'trial')} of {counted(len(tuning_run.tasks), 'task')}"
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


# Ports that browsers do not open, since other protocols have them: https://fetch.spec.whatwg.org/#port-blocking
_BLOCKED = frozenset(
    [
        *(1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103),
        *(104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513),
        *(
            514,
            515,
            526,
            530,
            531,
            532,
            540,
            548,
            554,
            556,
            563,
            587,
            601,
            636,
            989,
            990,
            993,
            995,
            1719,
            1720,
        ),
        *(1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697),
        10080,
    ]
)

_REDIRECT = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>edge-toolchain</title>
<p><a href="{url}">The page of toolchain ui</a></p>
"""


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Port on loopback; default: a free one.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in this machine's web browser.")
@output_options
def ui(port: int, opens: bool) -> None:
    """Show boards, tuning, builds and rollouts on a page while they work.

    Prints the page's address and serves it until Ctrl-C, on loopback only. The address has a secret: who has
    it and this account sees the page. It shows commands that run now or ran lately, in any terminal of this
    account, and changes nothing.
    """
    from toolchain.ui.server import LOOPBACK, PageServer, listen, serve_page

    if port in _BLOCKED:
        raise UsageError(
            f"--port {port}: web browsers do not open this port", "leave --port out to get a free one"
        )
    token = secrets.token_urlsafe(24)
    with listen(port) as listening:
        server = PageServer(listening, token)  # reads the settings: nothing is printed if they are broken
        number = listening.getsockname()[1]
        url = f"http://{LOOPBACK}:{number}/{token}/"
        emit({"url": url, "port": number}, lambda: click.echo(url))
        note("Ctrl-C ends it")
        with opened_page(url, number, click.launch) if opens else nullcontext():
            serve_page(server)


@contextmanager
def opened_page(url: str, port: int, launch: Callable[[str], object]) -> Iterator[None]:
    """Open the page in a web browser, by a file of this account alone that leads there until the block ends.

    Every account sees the arguments with which programs are started, and the address has a secret.

    Parameters
    ----------
    launch
        Opens an address in the browser.
    """
    from toolchain.configuration.settings import state_dir
    from toolchain.files.atomic import make_private_folder, write_text

    file = make_private_folder(state_dir()).absolute() / f"ui-{port}.html"
    write_text(file, _REDIRECT.format(url=url), mode=0o600)
    try:
        launch(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)
