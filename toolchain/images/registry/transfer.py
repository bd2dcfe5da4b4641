"""Follows the engine's events of a push or pull, explains its errors, and times out if it stays silent."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from toolchain.errors import ToolchainError

_SILENCE_SECONDS = 300.0  # the daemon reports several times a second while anything moves
_BETWEEN_SECONDS = 2.0  # between two lines of progress
# What the daemon says → what to do about it. The first that fits counts.
_HINTS = (
    (
        "server gave HTTP response to HTTPS client",
        "it speaks http, which Docker takes from this machine alone; give the registry a certificate, or "
        'name it under "insecure-registries" in /etc/docker/daemon.json',
    ),
    (
        "x509:",
        "its certificate is not trusted: put its authority's into /etc/docker/certs.d/{host}/ca.crt",
    ),
    ("no basic auth credentials", "log in: `docker login {host}`"),
    ("unauthorized", "log in: `docker login {host}`"),
    ("denied", "log in as a user who may: `docker login {host}`; does the repository exist?"),
    ("manifest unknown", "{absent}"),
    ("not found", "{absent}"),
    ("name unknown", "{absent}"),
    ("connection refused", "does a registry listen at {host}? Is the port right?"),
    ("no such host", "is the name of the registry right?"),
    ("credentials store", 'see "credsStore" and "credHelpers" in Docker\'s config.json'),
)


def listen(
    start: Callable[[], Iterable[dict[str, Any]]], name: str, progress: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Start a push or pull, report its progress and yield its events.

    Raises
    ------
    ToolchainError
        The daemon reports an error, or is silent for minutes.
    """
    layers: dict[str, tuple[int, int]] = {}
    last, told = time.monotonic(), ""
    for event in _watch(start):
        if "error" in event:
            raise ToolchainError(str(event["error"]))
        detail = event.get("progressDetail") or {}
        if "total" in detail:
            layers[f"{event['status']} {event['id']}"] = (detail["current"], detail["total"])
            now, line = time.monotonic(), f"{name}: {_sum(event['status'], layers)}"
            if now - last >= _BETWEEN_SECONDS and line != told:
                progress(line)
                last, told = now, line
        yield event


@contextmanager
def explained(what: str, where: str, absent: str) -> Iterator[None]:
    """Convert the daemon's errors about a registry to ours, with a hint what to do.

    Parameters
    ----------
    what
        The request to the daemon, such as `pull base`.
    where
        The registry's address, possibly followed by a path.
    absent
        Hint for an image missing in the registry.
    """
    import docker.errors
    import requests.exceptions

    try:
        yield
    except ToolchainError as error:
        if error.hint:
            raise
        said = error.message
    except docker.errors.APIError as error:
        said = str(error.explanation or error)
    except docker.errors.DockerException as error:
        said = str(error)
    except requests.exceptions.RequestException as error:
        raise ToolchainError(f"the Docker daemon stopped answering: {error}", "`docker info`") from error
    else:
        return
    hint = next((hint for words, hint in _HINTS if words.lower() in said.lower()), "")
    raise ToolchainError(f"cannot {what}: {said}", hint.format(host=where.partition("/")[0], absent=absent))


def _sum(status: str, layers: dict[str, tuple[int, int]]) -> str:
    """Return the total progress of the layers in one state, such as `Pushing`."""
    mine = [value for key, value in layers.items() if key.startswith(f"{status} ")]
    done, total = (sum(column) / 2**20 for column in zip(*mine, strict=True))
    return f"{status.lower()} {min(done, total):.0f} of {total:.0f} MiB"


def _watch(start: Callable[[], Iterable[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield events, read by a thread with a timeout, since the SDK itself waits forever."""
    passed: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def read() -> None:
        try:
            for event in start():
                passed.put(event)
            passed.put(None)
        except BaseException as error:
            passed.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            event = passed.get(timeout=_SILENCE_SECONDS)
        except queue.Empty as error:
            raise ToolchainError(f"Docker has reported nothing for {_SILENCE_SECONDS:g} s") from error
        if event is None:
            return
        if isinstance(event, BaseException):
            raise event
        yield event
