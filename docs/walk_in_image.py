"""Walks through a tutorial in a container of an image: the same walk, with loopback as its only network."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolchain.configuration.settings import cache_dir
from toolchain.errors import UsageError
from toolchain.images.engine import connect
from toolchain.images.running.environment import Ready, environment
from toolchain.images.running.mounts import Mount, folder_in_cache
from toolchain.images.running.placement import choose
from toolchain.images.running.step import Step, run_step, within

WALK = Path(__file__).parent / "walk.py"
SECONDS = 3600  # the longest page takes minutes; with a cold cache edge-rt is compiled before
_PASSED = ("TOOLCHAIN_JOBS",)


def walk_in_image(name: str, page: Path, networks: Mapping[str, Path], budget: str | None) -> int:
    """Walk through a page in a container of the image `name`; return the walk's exit code.

    The container is gone then. What it added to the cache of runtimes and functions stays, and nothing else.

    Parameters
    ----------
    networks
        What the page calls a network -> the file that is taken for it.
    budget
        Seconds for each `tune` and `bench`; None: the page's.

    Raises
    ------
    UsageError
        There is no such image in the table, this is a container already, or the daemon is on another machine.
    MissingError
        No daemon answers, or it has no such image.
    ToolchainError
        The container cannot be made, or died.
    """
    choice = choose("docker", name)
    if choice.image is None:
        raise UsageError(f"--image {name}: this is a container already", "leave the option out")
    if choice.reason:
        print(choice.reason, file=sys.stderr)
    with seen_by_the_daemon([WALK, page, *networks.values()]) as folder, connect() as engine:
        step = walking(choice.image, folder, page, networks, budget)
        return run_step(engine, step, sys.stdout.buffer, sys.stderr.buffer)


def walking(image: Ready, folder: Path, page: Path, networks: Mapping[str, Path], budget: str | None) -> Step:
    """Return the step that walks: as the user who asks for it, in a root file system that cannot be written.

    Parameters
    ----------
    folder
        Holds the walk, the page and the files of `networks`.
    """
    taken = [f"--network={name}={folder / file.name}" for name, file in networks.items()]
    return Step(
        image=image.id,
        argv=[
            *within(SECONDS),
            *("python", str(folder / WALK.name), str(folder / page.name), *taken),
            *([f"--budget={budget}"] if budget else []),
        ],
        folder=folder,
        mounts=[Mount(cache_dir().absolute(), writable=True), Mount(folder)],
        environment={
            **{variable: os.environ[variable] for variable in _PASSED if variable in os.environ},
            **environment(image),
        },
        name=f"image {image.name}",
    )


@contextmanager
def seen_by_the_daemon(files: list[Path]) -> Iterator[Path]:
    """Yield a folder with copies of files: the daemon may not see where they lie themselves."""
    with folder_in_cache(".walk.") as folder:
        for file in files:
            shutil.copy(file, folder)
        yield folder
