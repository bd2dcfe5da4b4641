"""Runs the smoke test of an image in a container like a step's, with its own folders."""

from __future__ import annotations

import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from toolchain.architectures.table import of_debian
from toolchain.configuration.settings import cache_dir
from toolchain.errors import MissingError, UsageError
from toolchain.images.catalogue import Image, docker_folder
from toolchain.images.debian.system_files import USER_ID
from toolchain.images.engine import Engine
from toolchain.images.running.environment import environment
from toolchain.images.running.mounts import Mount, folder_in_cache
from toolchain.images.running.step import Step, run_step, within

SCRIPT = "smoke.sh"  # in the folder of each image
SHARED = "smoke"  # folder of scripts that several images use
SECONDS = 1200  # 20 s here; with a cold cache it compiles edge-rt, which takes minutes
_LATE = 124  # as `timeout` says it
_INTERRUPTED = 128 + signal.SIGINT  # as a shell says it


@dataclass(frozen=True)
class Tested:
    """The result of an image's smoke test, with the exit code of its script."""

    name: str
    passed: bool
    exit_code: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {**asdict(self), "seconds": round(self.seconds, 1)}

    def __str__(self) -> str:
        took = f"in {self.seconds:.0f} s"
        if self.passed:
            return f"passed {took}"
        late = f"did not end within {SECONDS} s"
        return late if self.exit_code == _LATE else f"failed with exit code {self.exit_code} {took}"


def smoke_test(engine: Engine, image: Image, out: BinaryIO) -> Tested:
    """Run an image's smoke test.

    The test gets its own folder, which is removed afterwards, and the cache of compiled runtimes, but no
    network.

    Parameters
    ----------
    out
        File to which the test's output is streamed.

    Raises
    ------
    UsageError
        The daemon is on another machine.
    MissingError
        The image is not here.
    ToolchainError
        The container died.
    """
    if not engine.is_local:
        raise UsageError(
            f"DOCKER_HOST={engine.where}: a test's files are on this machine, and the daemon is not",
            "unset DOCKER_HOST",
        )
    if engine.image_labels(image.tag) is None:
        raise MissingError(f"the image {image.name} is not here", f"toolchain image build {image.name}")
    began = time.monotonic()
    with folder_in_cache(".smoke.") as folder:
        code = run_step(engine, _system(image) if image.system else _step(image, folder), out, out)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    return Tested(image.name, code == 0, code, time.monotonic() - began)


def _step(image: Image, folder: Path) -> Step:
    work = folder / "work"
    work.mkdir()
    # Copied, since the daemon may not see this package's folder, and no test may change it.
    shutil.copytree(image.path, folder / "docker" / image.folder)
    shutil.copytree(docker_folder() / SHARED, folder / "docker" / SHARED)
    return Step(
        image=image.tag,
        argv=[*within(SECONDS), "/bin/sh", str(folder / "docker" / image.folder / SCRIPT)],
        folder=work,
        mounts=[Mount(cache_dir().absolute(), writable=True), Mount(folder, writable=True)],
        environment={
            **environment(),
            "TOOLCHAIN_DATA_DIR": str(folder / "data"),
            "TOOLCHAIN_STATE_DIR": str(folder / "state"),
        },
    )


def _system(image: Image) -> Step:
    """Return the smoke test of a board's system; it runs as the board's user."""
    uname = of_debian(image.system).uname
    script = (docker_folder() / SHARED / "board.sh").read_text()
    return Step(
        image=image.tag,
        argv=[*within(SECONDS), "/bin/bash", "-c", script, "board.sh", uname],
        folder=Path("/tmp"),  # noqa: S108
        mounts=[],
        user=(USER_ID, USER_ID),
        groups=(),
    )
