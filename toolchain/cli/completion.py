"""`toolchain completion`: the completion script of a shell."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, output_options


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@output_options
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  eval "$(toolchain completion bash)"     in ~/.bashrc
    zsh   eval "$(toolchain completion zsh)"      in ~/.zshrc
    fish  toolchain completion fish > ~/.config/fish/completions/toolchain.fish
    """
    from click.shell_completion import get_completion_class

    from toolchain.cli.root import root

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows the three shells of the choice
    script = kind(root, {}, "toolchain", "_TOOLCHAIN_COMPLETE").source()
    emit({"shell": shell, "script": script}, lambda: click.echo(script))
