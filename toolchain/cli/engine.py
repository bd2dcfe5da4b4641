"""The `--engine` of a command: it runs on this host, or is started again in a container."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.lazy import ARGUMENTS
from toolchain.cli.output import is_verbose, note, stdout, wants_json
from toolchain.errors import MissingError
from toolchain.models.options import files_after_equals

if TYPE_CHECKING:
    from toolchain.images.running.environment import Ready
    from toolchain.images.running.mounts import Mount
    from toolchain.profiles import Profile
    from toolchain.rpc.lab import Lab

# Environment variables that a command reads and that are meaningful in a container.
_PASSED = ("TOOLCHAIN_BOARD", "TOOLCHAIN_JOBS", "TOOLCHAIN_RATES", "TERM", "COLORTERM", "NO_COLOR")


@dataclass(frozen=True)
class ContainerRun:
    """An image and mounts with which this `toolchain` command can run again, inside a container.

    Attributes
    ----------
    gpus
        Environment variables about this host's GPUs.
    """

    image: Ready
    mounts: list[Mount]
    gpus: Mapping[str, str] = field(default_factory=dict)

    def run(self, lab: Lab | None = None) -> int:
        """Run this process's command line in the container, which prints the output; return its exit code.

        Parameters
        ----------
        lab
            The lab through which it reaches boards; None: the container has no network.
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
            **self.gpus,
            "TOOLCHAIN_DATA_DIR": str(data_dir().absolute()),
            "TOOLCHAIN_STATE_DIR": str(state_dir().absolute()),
            **({PORT_VARIABLE: str(lab.port)} if lab else {}),
            FILE_VARIABLE: str(configuration().file or os.devnull),  # the host has searched for it already
        }


def container_for(
    engine: str | None,
    profile: Profile,
    device_kind: str,
    reads: Iterable[Path],
    writes: Iterable[Path] = (),
    *,
    model: str = "",
) -> ContainerRun | None:
    """Return the container in which the running command is to run, or None to run it on this host.

    If the user left the choice open, print the reason for this one, unless the last command had the same
    reason or the model is missing.

    Parameters
    ----------
    engine
        Value of the option; None for the configured one.
    profile
        Board class, whose `image` is used unless code for the kind of device needs another.
    reads, writes
        Files and folders on the command line.
    model
        The model on the command line.

    Raises
    ------
    UsageError
        The class names an unknown image; or the user requires a container that cannot reach what it needs.
    MissingError
        The user requires a container, and Docker or the image is missing.
    """
    from toolchain.configuration.settings import settings

    wanted: Any = engine or settings().engine
    if wanted == "host":
        return None
    from toolchain.devices.table import kind_of
    from toolchain.errors import UsageError
    from toolchain.images.catalogue import catalogue
    from toolchain.images.running.mounts import mounts_for
    from toolchain.images.running.placement import choose, on_host

    if profile.image not in catalogue():
        raise UsageError(
            f"board class {profile.name}: image = {profile.image!r}: there is no such image",
            f"the images are: {', '.join(catalogue())}",
        )
    choice = choose(wanted, kind_of(device_kind).image or profile.image)
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
    if choice.reason and not _is_missing(model):
        _say_once(choice.reason)
    return ContainerRun(choice.image, mounts, _gpus(profile, device_kind)) if choice.image else None


def _is_missing(model: str) -> bool:
    """Whether a model is a missing file: then only the error about it is printed."""
    from toolchain.models.reading.formats import endings

    return model.endswith(endings()) and not Path(model).exists()


def _say_once(reason: str) -> None:
    """Print why a command runs in a container or on the host, if the reason changed or with `-v`."""
    from toolchain.configuration.settings import state_dir
    from toolchain.errors import ToolchainError
    from toolchain.files.atomic import make_private_folder, write_text

    with suppress(OSError, ToolchainError, UnicodeDecodeError):
        file = make_private_folder(state_dir()) / "engine"
        if not is_verbose() and file.exists() and file.read_text() == reason:
            return
        write_text(file, reason, mode=0o600)
    note(reason)


def _gpus(profile: Profile, device_kind: str) -> dict[str, str]:
    """Return environment variables with the architectures of this host's GPUs, for the container."""
    from toolchain.devices.cuda_architectures import NATIVE, VARIABLE, native_architectures

    if profile.device(device_kind).own.get("arch") != NATIVE:
        return {}
    with suppress(MissingError):  # the command in the container says so, unless it has `--arch`
        return {VARIABLE: ",".join(native_architectures())}
    return {}


def files_of(model: str, inputs: Iterable[str] = (), files: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the existing files among MODEL, the values of `NAME=FILE.npy`, and `files`."""
    for name in (model, *chain.from_iterable(map(files_after_equals, inputs)), *map(str, files)):
        try:
            if name and Path(name).exists():
                yield Path(name)
        except OSError:  # not a valid file name; the command reports it
            continue


def _bytes(stream: Any) -> Any:
    stream.flush()
    return stream.buffer
