"""Click groups: one lists its commands in a table and imports one only when it runs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

ARGUMENTS = "toolchain.arguments"  # key of a context's `meta`: the whole command line as typed


class OrderedGroup(click.Group):
    """A group that lists its commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of definition."""
        return list(self.commands)


class LazyGroup(click.Group):
    """Answer `--help` and completion from `table`; import a command's module only when it runs.

    Parameters
    ----------
    package
        Package with the commands' modules.
    table
        Name and one-line help of each command, in the order to show them.
    modules
        Name of a command -> its module, where that is not called as the command. In its module, a command has
        its own name.
    """

    def __init__(
        self,
        *args: Any,
        package: str,
        table: Mapping[str, str],
        modules: Mapping[str, str] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.package = package
        self.table = table
        self.modules = modules

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the command line of the outermost group, for a command that starts itself again elsewhere."""
        ctx.meta.setdefault(ARGUMENTS, tuple(args))
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of `cmd_name` and return its command; None for an unknown name."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(f"{self.package}.{self.modules.get(cmd_name, cmd_name)}")
        return cast(click.Command, getattr(module, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names; the error for an unknown one has a similar name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.table, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(error.message + meant, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the section `Commands` of `--help`: name and one-line help of each command in `table`."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, and options as usual."""
        names = [CompletionItem(n, help=h) for n, h in self.table.items() if n.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)
