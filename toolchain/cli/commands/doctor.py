"""`toolchain doctor`: checks what is installed on this machine."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, note, output_options, table
from toolchain.errors import MissingError


@click.command()
@output_options
def command() -> None:
    """Check what is installed, what is missing and how to get it.

    Also shows where the value of each setting came from. Exits with 3 if something needed is missing.
    """
    note("checking this machine; a few seconds")
    from toolchain.configuration.settings import configuration
    from toolchain.doctor import diagnose, settings_with_origins

    checks = diagnose()
    settings = settings_with_origins(configuration())

    def tell() -> None:
        rows = [(c.name, c.state, c.wanted_by, c.found) for c in checks]
        table(["CHECK", "STATE", "WANTED BY", "FOUND"], rows)
        for check in checks:
            if check.hint and check.state != "ok":
                click.echo(f"{check.name}: {check.hint}")
        click.echo()
        table(["SETTING", "VALUE", "FROM"], [(s["key"], s["value"], s["origin"]) for s in settings])

    passed = all(check.state != "missing" for check in checks)
    emit({"passed": passed, "checks": [c.to_json() for c in checks], "settings": settings}, tell)
    if not passed:
        click.get_current_context().exit(MissingError.exit_code)
