"""`toolchain image shell`."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli import complete
from toolchain.cli.output import note, output_options


@click.command("shell")
@click.argument("name", shell_complete=complete.images)
@output_options
def command(name: str) -> int:
    """Open a shell in an image, in the current folder, with the mounts and rights of a step.

    It can read the workspace and write the current folder; it reaches no network.
    """
    from toolchain.cli.engine import ContainerRun
    from toolchain.errors import UsageError
    from toolchain.images.catalogue import image_named
    from toolchain.images.engine import connect
    from toolchain.images.running.conversation import check_terminal, run_shell
    from toolchain.images.running.mounts import ensure_folders, mounts_for
    from toolchain.images.running.placement import choose
    from toolchain.images.running.step import Step

    if image_named(name).system:
        raise UsageError(f"{name} is a board", "`toolchain board emulate start CLASS`, then ssh into it")
    check_terminal()
    choice = choose("docker", name)
    if choice.image is None:
        raise UsageError("this is a shell in an image already", "exit")
    if choice.reason:
        note(choice.reason)
    here = Path.cwd()
    container = ContainerRun(choice.image, mounts_for([], [here]))
    step = Step(
        image=choice.image.id,
        argv=["/bin/bash", "--norc"],
        folder=here,
        mounts=container.mounts,
        environment={**container.environment(None), "PS1": rf"{name}:\w\$ "},
        terminal=True,
    )
    with connect() as engine, ensure_folders(step.mounts):
        return run_shell(engine, step)
