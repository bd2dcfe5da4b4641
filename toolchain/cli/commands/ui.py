"""`toolchain ui`: a page in the web browser that shows what is at work."""

from __future__ import annotations

import secrets

import click

from toolchain.cli.output import emit, note, output_options


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
    from toolchain.ui.server import LOOPBACK, listen, serve_page

    token = secrets.token_urlsafe(24)
    with listen(port) as listening:
        number = listening.getsockname()[1]
        url = f"http://{LOOPBACK}:{number}/{token}/"
        emit({"url": url, "port": number}, lambda: click.echo(url))
        note("Ctrl-C ends it")
        if opens:
            click.launch(url)
        serve_page(listening, token)
