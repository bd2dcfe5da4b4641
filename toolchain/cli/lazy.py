"""A click group whose commands are named in a table and imported only when one of them runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

ARGUMENTS = "toolchain.arguments"  # in a context's `meta`: the whole command line, as it was typed


class LazyGroup(click.Group):
    """Answer `--help` and completion from `table`; import `package.<name>` for the command itself.

    Parameters
    ----------
    package
        The package that holds a module per command; each module calls its own `command`.
    table
        Name of each command and its one line of help, in the order to show them.
    """

    def __init__(self, *args: Any, package: str, table: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.package = package
        self.table = table

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the outermost group's arguments, for a command that runs itself elsewhere."""
        ctx.meta.setdefault(ARGUMENTS, tuple(args))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of `cmd_name` and return its command; None when the table has no such name."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(f"{self.package}.{cmd_name}")
        return cast(click.Command, module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, options as any command does."""
        names = [CompletionItem(n, help=h) for n, h in self.table.items() if n.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)
