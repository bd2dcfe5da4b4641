"""`toolchain ui`: a page in the web browser that shows what is at work."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import click

from toolchain.cli.output import emit, note, output_options
from toolchain.errors import UsageError

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
def command(port: int, opens: bool) -> None:
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
