"""`toolchain init`, `doctor`, `cache` and `completion`: this host, its settings, and what it keeps."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.output import emit, note, output_options, table
from toolchain.errors import MissingError
from toolchain.quantities import counted


@click.command()
@output_options
def init() -> None:
    """Write a first toolchain.toml.

    It has every key with its default, commented out. An existing file is not changed.
    """
    from toolchain.configuration.keys import write_starter

    file = write_starter(Path.cwd())
    emit({"file": file}, lambda: click.echo(f"wrote {file}: every key is commented, with its default"))


@click.command()
@output_options
def doctor() -> None:
    """Check what is installed, what is missing and how to get it.

    Also shows where the value of each setting came from. Exits with 3 if something needed is missing.
    """
    note("checking this machine; a few seconds")
    from toolchain.configuration.settings import configuration
    from toolchain.doctor import diagnose, settings_with_origins

    checks = diagnose()
    settings = settings_with_origins(configuration())

    def print_text() -> None:
        rows = [(c.name, c.state, c.wanted_by, c.found) for c in checks]
        table(["CHECK", "STATE", "WANTED BY", "FOUND"], rows)
        for check in checks:
            if check.hint and check.state != "ok":
                click.echo(f"{check.name}: {check.hint}")
        click.echo()
        table(["SETTING", "VALUE", "FROM"], [(s["key"], s["value"], s["origin"]) for s in settings])

    passed = all(check.state != "missing" for check in checks)
    emit({"passed": passed, "checks": [c.to_json() for c in checks], "settings": settings}, print_text)
    if not passed:
        click.get_current_context().exit(MissingError.exit_code)


@click.group()
@output_options
def cache() -> None:
    """List and prune files that can be made again."""


@cache.command("list")
@output_options
def list_cache() -> None:
    """List the content of the cache folder, with sizes."""
    from toolchain.cache import list_entries

    entries = list_entries()
    rows = [entry.to_json() for entry in entries]

    def print_text() -> None:
        table(
            ["KIND", "MIB", "IN USE", "PATH"],
            [(e.kind, f"{e.mib:.1f}", "yes" if e.current else "no", e.path) for e in entries],
        )

    emit(rows, print_text)


@cache.command()
@click.option("--all", "everything", is_flag=True, help="Remove everything, including what is in use.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@output_options
def prune(everything: bool, dry_run: bool) -> None:
    """Remove what this version no longer uses."""
    from toolchain.cache import prune

    removed = prune(everything=everything, dry_run=dry_run)
    verb = "would remove" if dry_run else "removed"

    def print_text() -> None:
        total = sum(entry.mib for entry in removed)
        for entry in removed:
            click.echo(f"{verb} {entry.path} ({entry.mib:.1f} MiB)")
        click.echo(f"{verb} {counted(len(removed), 'entry', 'entries')}, {total:.1f} MiB")

    emit({"dry_run": dry_run, "removed": [entry.to_json() for entry in removed]}, print_text)


# bash also splits words at ':', so that zoo:mobilenet becomes three. They are joined before click's function
# runs, and the part that bash treats as earlier words is cut off its answers.
_WHOLE_WORDS = """
_toolchain_whole_words() {
    local word joins= words=() cut=
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ ${#words[@]} -gt 0 && ( $joins || $word == :* ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        joins=
        [[ $word == *: ]] && joins=yes
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    _toolchain_completion "$@"
    word=${words[-1]}
    [[ $COMP_WORDBREAKS == *:* ]] && cut=${word%"${word##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o nosort -F _toolchain_whole_words toolchain
"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@output_options
def completion(shell: str) -> None:
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
    if shell == "bash":
        script += _WHOLE_WORDS
    emit({"shell": shell, "script": script}, lambda: click.echo(script))
