"""`toolchain completion`: prints the completion script of a shell."""

from __future__ import annotations

import click

from toolchain.cli.output import emit, output_options

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
    if shell == "bash":
        script += _WHOLE_WORDS
    emit({"shell": shell, "script": script}, lambda: click.echo(script))
