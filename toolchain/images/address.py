"""The address of the Docker daemon, from the environment."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import SplitResult, urlsplit

from toolchain.errors import UsageError

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def address() -> str:
    """Return the address of the Docker daemon: DOCKER_HOST, else the usual socket."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def checked_address() -> str:
    """Return `address()` after checking that the SDK accepts it.

    Raises
    ------
    UsageError
        DOCKER_HOST is not an address, or a related variable (DOCKER_TLS_VERIFY …) is wrong.
    """
    return checked_environment()[0]


def checked_environment() -> tuple[str, dict[str, Any]]:
    """Return the daemon's address, and the SDK's settings from the environment."""
    import docker.errors
    import docker.utils

    where = address()
    try:
        docker.utils.parse_host(where)
        return where, docker.utils.kwargs_from_env()
    except (docker.errors.DockerException, ValueError) as error:
        raise _no_address(where, error) from error


def parts_of(where: str) -> SplitResult:
    """Return the parts of a daemon's address.

    Raises
    ------
    UsageError
        The address is malformed, or its port is not a port number.
    """
    try:
        parts = urlsplit(where)
        _ = parts.port  # urlsplit checks the port only when it is read
    except ValueError as error:
        raise _no_address(where, error) from error
    return parts


def _no_address(where: str, error: Exception) -> UsageError:
    return UsageError(f"DOCKER_HOST={where}: {error}", "such as unix:///var/run/docker.sock")


def is_local(where: str) -> bool:
    """Whether a daemon's address is on this machine, without connecting to it; errors as of `parts_of`."""
    parts = parts_of(where)
    return parts.scheme in ("unix", "http+unix") or parts.hostname in _LOOPBACK
