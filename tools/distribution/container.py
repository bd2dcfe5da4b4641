"""A Debian that has Python and nothing else of ours, in which a wheel is installed without a network."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from uuid import uuid4

from toolchain.images.catalogue import image_named
from toolchain.images.debian.bootstrap import ARCHITECTURE, SUITE
from toolchain.images.debian.unpacking import unpack
from toolchain.images.making.wheels import ensure_wheels

_PACKAGES = ("usr-is-merged", "python3-venv")
_VENV = "/opt/venv"
_WHEELS = "/wheels"
_DOCKER_S = 600
_COMMAND_S = 1800  # it compiles edge-rt


@dataclass(frozen=True)
class Debian:
    """A running container, with the toolchain in a virtual environment.

    Attributes
    ----------
    name
        Of the container.
    """

    name: str

    def run(
        self, *arguments: object, cwd: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `toolchain ARGUMENTS` in it; its streams are in the result."""
        given = [word for key, value in (more or {}).items() for word in ("--env", f"{key}={value}")]
        return subprocess.run(
            [
                *("docker", "exec", "--workdir", str(cwd), *given, self.name),
                *(f"{_VENV}/bin/toolchain", *map(str, arguments)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )


@contextmanager
def debian_with(packed: Sequence[Path], shared: Path) -> Iterator[Debian]:
    """Yield a container in which pip installed wheels; at the end it and its image are removed.

    Parameters
    ----------
    packed
        The wheels. What they need comes from requirements.lock.
    shared
        A folder that has the same path in the container.

    Raises
    ------
    ToolchainError
        Debian's packages or the wheels of requirements.lock cannot be fetched.
    subprocess.CalledProcessError
        Docker or pip failed; what they said is on stderr.
    """
    wheels = ensure_wheels(image_named("base"), print)
    name = f"edge-toolchain-fresh-{uuid4().hex[:8]}"
    with (
        tempfile.TemporaryDirectory() as folder,
        unpack(SUITE, ARCHITECTURE, _PACKAGES, Path(folder) / "log", "apt") as packages,
    ):
        _docker("import", "-", name, stream=packages)
    try:
        mounts = [f"{wheels}:{_WHEELS}:ro", f"{shared}:{shared}"]
        mounts += [f"{wheel}:/{wheel.name}:ro" for wheel in packed]
        given = [word for mount in mounts for word in ("--volume", mount)]
        _docker(
            "run",
            "--detach",
            "--network",
            "none",
            "--init",
            "--name",
            name,
            *given,
            name,
            "sleep",
            "infinity",
        )
        _docker("exec", name, "python3", "-m", "venv", _VENV)
        pip = (f"{_VENV}/bin/pip", "install", "--quiet", "--no-index", "--find-links", _WHEELS)
        _docker("exec", name, *pip, *(f"/{wheel.name}" for wheel in packed))
        yield Debian(name)
    finally:
        for command in (("rm", "--force", "--volumes", name), ("rmi", "--force", name)):
            subprocess.run(["docker", *command], capture_output=True, timeout=_DOCKER_S, check=False)


def _docker(*arguments: str, stream: IO[bytes] | None = None) -> None:
    subprocess.run(
        ["docker", *arguments],
        stdin=stream or subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=_DOCKER_S,
        check=True,
    )
