"""The `--engine` of a command: it runs here, or once more in a container, with the same command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.lazy import ARGUMENTS
from toolchain.cli.output import note, stdout, wants_json
from toolchain.models.options import files_after_equals

if TYPE_CHECKING:
    from toolchain.images.running.mounts import Mount
    from toolchain.images.running.placement import Ready
    from toolchain.profiles import Profile
    from toolchain.rpc.lab import Lab

# What of the environment a command reads, and a container can make something of.
_PASSED = ("TOOLCHAIN_BOARD", "TOOLCHAIN_JOBS", "TERM", "COLORTERM", "NO_COLOR")


@dataclass(frozen=True)
class Container:
    """Where the running command is to run once more."""

    image: Ready
    mounts: list[Mount]

    def run(self, lab: Lab | None = None) -> int:
        """Run this process's command line there; return its exit code, as it has said the rest itself.

        Parameters
        ----------
        lab
            Where it finds the boards; without one it reaches nothing.
        """
        from toolchain.images.engine import connect
        from toolchain.images.running.mounts import ensure_folders
        from toolchain.images.running.step import Step, run_step

        step = Step(
            image=self.image.id,
            argv=["toolchain", *click.get_current_context().meta[ARGUMENTS]],
            folder=Path.cwd(),
            mounts=self.mounts,
            environment=self.environment(lab),
            network="host" if lab else "none",
            terminal=not wants_json() and sys.stdout.isatty() and sys.stderr.isatty(),
            name=f"image {self.image.name}",
        )
        with connect() as engine, ensure_folders(self.mounts):
            return run_step(engine, step, _bytes(stdout()), _bytes(sys.stderr))

    def environment(self, lab: Lab | None) -> dict[str, str]:
        from toolchain.configuration.file import FILE_VARIABLE
        from toolchain.configuration.settings import configuration, data_dir, state_dir
        from toolchain.images.running.environment import environment
        from toolchain.rpc.lab import PORT_VARIABLE

        return {
            **{name: os.environ[name] for name in _PASSED if name in os.environ},
            **environment(self.image),
            "TOOLCHAIN_DATA_DIR": str(data_dir().absolute()),
            "TOOLCHAIN_STATE_DIR": str(state_dir().absolute()),
            **({PORT_VARIABLE: str(lab.port)} if lab else {}),
            FILE_VARIABLE: str(configuration().file or os.devnull),  # it was looked at here
        }


def container_for(
    engine: str | None, profile: Profile, reads: Iterable[Path], writes: Iterable[Path] = ()
) -> Container | None:
    """Return the container that the running command is to run in, None for this host; if the user left
    the choice open, say which.

    Parameters
    ----------
    engine
        The option's value; None: the configured one.
    profile
        The board class, which names the image.
    reads, writes
        Files and folders that the command line names.

    Raises
    ------
    UsageError
        The class names an image that does not exist; or a container is wanted that cannot see this host.
    MissingError
        A container is wanted, and Docker or the image is not there.
    """
    from toolchain.configuration.settings import settings

    wanted: Any = engine or settings().engine
    if wanted == "host":
        return None
    from toolchain.errors import UsageError
    from toolchain.images.catalogue import catalogue
    from toolchain.images.running.mounts import mounts_for
    from toolchain.images.running.placement import choose, on_host

    if profile.image not in catalogue():
        raise UsageError(
            f"board class {profile.name}: image = {profile.image!r}: there is no such image",
            f"the images are: {', '.join(catalogue())}",
        )
    choice = choose(wanted, profile.image)
    if choice.image is not None and settings().records_url is not None:
        problem = UsageError(
            "records_url is set, and a container does not reach the database of records", "use --engine host"
        )
        if wanted == "docker":
            raise problem
        choice = on_host(problem)
    mounts: list[Mount] = []
    if choice.image is not None:
        try:
            mounts = mounts_for(reads, writes)
        except UsageError as error:
            if wanted == "docker":
                raise
            choice = on_host(error)
    if choice.reason:
        note(choice.reason)
    return Container(choice.image, mounts) if choice.image else None


def files_of(model: str, inputs: Iterable[str] = (), files: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the files that a MODEL, values of `NAME=FILE.npy` and others name, as far as they are there."""
    for name in (model, *chain.from_iterable(map(files_after_equals, inputs)), *map(str, files)):
        try:
            if name and Path(name).exists():
                yield Path(name)
        except OSError:  # no file could have such a name: the command says so
            continue


def _bytes(stream: Any) -> Any:
    stream.flush()
    return stream.buffer
