"""Chooses where a step runs, in a container or on this host, and gives the reason."""

from __future__ import annotations

import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from toolchain.architectures.table import of_machine
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.address import address, checked_address, is_local, parts_of
from toolchain.images.catalogue import Image, image_named
from toolchain.images.contents import LOCK_LABEL
from toolchain.images.debian.bootstrap import ARCHITECTURE, WITHOUT
from toolchain.images.engine import connect
from toolchain.images.listing import is_stale
from toolchain.images.running.environment import Ready, image_here

EngineSetting = Literal["auto", "docker", "host"]
_PROBE_S = 2.0


@dataclass(frozen=True)
class Placement:
    """The place where a step runs.

    Attributes
    ----------
    image
        The image, None for this host.
    reason
        Sentence for the user; empty if the user has chosen the place.
    """

    image: Ready | None
    reason: str = ""


def choose(setting: EngineSetting, name: str) -> Placement:
    """Decide where a step runs for a board class whose image is `name`.

    Parameters
    ----------
    setting
        `auto`: in a container if Docker answers and the image exists and is current.

    Raises
    ------
    UsageError
        The table has no such image; or the setting is `docker`, and DOCKER_HOST is malformed or names
        another machine.
    MissingError
        The setting is `docker`, and no daemon answers, or it has no such image.
    """
    if setting == "host" or image_here() is not None:
        return Placement(None)
    image = image_named(name)
    try:
        if setting == "auto":
            _probe()
        ready = _ready(image)
    except ToolchainError as error:
        if setting == "docker":
            raise
        return on_host(error)
    if not ready.stale:
        return Placement(ready, f"engine: docker, image {name}" if setting == "auto" else "")
    outdated = f"the image {name} is out of date; `toolchain image build {name}` renews it"
    if setting == "auto":
        return Placement(None, f"engine: host, since {outdated}")
    return Placement(ready, f"warning: {outdated}")


def on_host(error: ToolchainError) -> Placement:
    """Return the placement on this host, with the error as its reason."""
    return Placement(None, f"engine: host, since {error}")


def _probe() -> None:
    """Raise MissingError quickly if no daemon listens."""
    parts = parts_of(address())
    _check_is_here()
    try:
        if parts.scheme == "tcp":
            socket.create_connection((parts.hostname, parts.port), _PROBE_S).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_PROBE_S)
                probe.connect(parts.path)
                probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                probe.recv(1)
    except OSError as error:
        raise MissingError(f"no Docker daemon answers at {address()}: {error}") from error


def _check_is_here() -> None:
    """Refuse a daemon on another machine, without connecting to it."""
    if not is_local(address()):
        raise UsageError(
            f"DOCKER_HOST={checked_address()}: the Docker daemon is on another machine, "
            "and a bind mount of this machine's folders cannot work there",
            "unset DOCKER_HOST, or use --engine host",
        )


def _ready(image: Image) -> Ready:
    _check_is_here()
    with connect() as engine:
        facts = engine.image(image.tag)
        if facts is None:
            raise _absent(image)
        labels: Mapping[str, str] = facts["Config"]["Labels"] or {}
        with engine.request("ask for its facts"):
            machine = engine.api.info()
        _check_users(machine)
        _check_architecture(image, facts)
        stale = is_stale(engine, image, facts)
    return Ready(image.name, str(facts["Id"]), labels.get(LOCK_LABEL, ""), stale)


def _absent(image: Image) -> MissingError:
    what = f"there is no image {image.name} ({image.tag})"
    machine = _docker_machine()
    if machine != ARCHITECTURE:
        return MissingError(f"{what} for {machine}: images are made on {ARCHITECTURE}", WITHOUT)
    return MissingError(f"{what} yet", f"`toolchain image build {image.name}` makes it")


def _docker_machine() -> str:
    """Return Docker's name of this machine's architecture, such as arm64."""
    machine = platform.machine()
    row = of_machine(machine)
    return row.docker if row else machine


def _check_users(machine: Mapping[str, Any]) -> None:
    options = ",".join(machine.get("SecurityOptions") or ())
    for kind in ("rootless", "userns"):
        if f"name={kind}" in options:
            raise UsageError(
                f"the Docker daemon at {address()} maps users ({kind}): files made in a container "
                "would not be yours",
                "use --engine host",
            )


def _check_architecture(image: Image, facts: Mapping[str, Any]) -> None:
    machine = _docker_machine()
    if facts["Architecture"] != machine:
        raise MissingError(
            f"the image {image.name} is for {facts['Architecture']}, and this machine is "
            f"{platform.machine()}: exec format error",
            f"build it here: `toolchain image build {image.name}`" if machine == ARCHITECTURE else WITHOUT,
        )
