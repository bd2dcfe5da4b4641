"""Pushes and pulls images by the engine, with the credentials of Docker's own configuration."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from toolchain.architectures.table import of_debian
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.catalogue import REPOSITORY, Image
from toolchain.images.engine import IMAGE_LABEL, Engine
from toolchain.images.registry.names import HOST, PATH

# Follows the engine's events of a push or pull, explains its errors, and times out if it stays silent.

_SILENCE_SECONDS = 300.0  # the daemon reports several times a second while anything moves
_BETWEEN_SECONDS = 2.0  # between two lines of progress
# Part of the daemon's message → hint; the first match counts.
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
    last, last_line = time.monotonic(), ""
    for event in _watch(start):
        if "error" in event:
            raise ToolchainError(str(event["error"]))
        detail = event.get("progressDetail") or {}
        if "total" in detail:
            layers[f"{event['status']} {event['id']}"] = (detail["current"], detail["total"])
            now, line = time.monotonic(), f"{name}: {_sum(event['status'], layers)}"
            if now - last >= _BETWEEN_SECONDS and line != last_line:
                progress(line)
                last, last_line = now, line
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
        complaint = error.message
    except docker.errors.APIError as error:
        complaint = str(error.explanation or error)
    except docker.errors.DockerException as error:
        complaint = str(error)
    except requests.exceptions.RequestException as error:
        raise ToolchainError(f"the Docker daemon stopped answering: {error}", "`docker info`") from error
    else:
        return
    hint = next((hint for words, hint in _HINTS if words.lower() in complaint.lower()), "")
    raise ToolchainError(
        f"cannot {what}: {complaint}", hint.format(host=where.partition("/")[0], absent=absent)
    )


def _sum(status: str, layers: dict[str, tuple[int, int]]) -> str:
    """Return the total progress of the layers in one state, such as `Pushing`."""
    progress = [value for key, value in layers.items() if key.startswith(f"{status} ")]
    done, total = (sum(column) / 2**20 for column in zip(*progress, strict=True))
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


_TAG = "latest"
_REGISTRY = re.compile(rf"{HOST}(/{PATH})?")


@dataclass(frozen=True)
class Transferred:
    """An image that a registry has.

    Attributes
    ----------
    reference
        Name in the registry, with the digest: `REGISTRY/edge-toolchain/NAME@sha256:…`.
    id
        Id of the image in this machine's engine.
    """

    name: str
    reference: str
    digest: str
    id: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


def checked_registry(text: str) -> str:
    """Return a `HOST[:PORT][/PREFIX]`.

    Raises
    ------
    UsageError
        The text is something else, such as a URL.
    """
    registry = text.rstrip("/")
    if not _REGISTRY.fullmatch(registry):
        raise UsageError(
            f"--registry {text}: not HOST[:PORT][/PREFIX]",
            "such as registry.example.org/team or localhost:5000; without https://",
        )
    return registry


def push(engine: Engine, image: Image, registry: str, progress: Callable[[str], None]) -> Transferred:
    """Send an image to a registry, as `REGISTRY/edge-toolchain/NAME:latest`.

    Raises
    ------
    MissingError
        The image is not here.
    ToolchainError
        The registry cannot be reached, or refuses the image.
    """
    labels = engine.image_labels(image.tag)
    if labels is None:
        raise MissingError(f"the image {image.name} is not here", f"toolchain image build {image.name}")
    if labels.get(IMAGE_LABEL) != image.name:
        raise ToolchainError(
            f"{image.tag} is not the image {image.name} of this toolchain: not pushed",
            f"toolchain image build {image.name}",
        )
    repository = _repository(registry, image)
    with _tagged(engine, image.tag, repository), _explained("push", image, registry):
        digest = ""
        send = partial(engine.api.push, repository, tag=_TAG, stream=True, decode=True)
        for event in listen(send, image.name, progress):
            digest = event.get("aux", {}).get("Digest", digest)
        image_id = str(engine.api.inspect_image(image.tag)["Id"])
    return Transferred(image.name, f"{repository}@{digest}", digest, image_id)


def pull(engine: Engine, image: Image, registry: str, progress: Callable[[str], None]) -> Transferred:
    """Fetch an image from a registry and replace the local one.

    Raises
    ------
    ToolchainError
        The registry cannot be reached or lacks the image, or has another image of that name; the local
        image is unchanged.
    """
    repository = _repository(registry, image)
    with _tagged(engine, None, repository), _explained("pull", image, registry):
        digest = ""
        fetch = partial(engine.api.pull, repository, tag=_TAG, stream=True, decode=True)
        for event in listen(fetch, image.name, progress):
            status = str(event.get("status", ""))
            digest = status.removeprefix("Digest: ") if status.startswith("Digest: ") else digest
        pulled = engine.api.inspect_image(f"{repository}:{_TAG}")
        _check(image, pulled, _go_architecture(engine, image), f"{repository}@{digest}")
        engine.api.tag(pulled["Id"], *image.tag.split(":"))
    engine.remove_superseded(image.name, image.tag)
    return Transferred(image.name, f"{repository}@{digest}", digest, str(pulled["Id"]))


def _repository(registry: str, image: Image) -> str:
    return f"{registry}/{REPOSITORY}/{image.name}"


def _go_architecture(engine: Engine, image: Image) -> str:
    if not image.system:
        return str(engine.api.version()["Arch"])
    return of_debian(image.system).docker


def _check(image: Image, pulled: dict[str, Any], architecture: str, reference: str) -> None:
    label = (pulled["Config"]["Labels"] or {}).get(IMAGE_LABEL)
    if label != image.name:
        what = "none of this toolchain's images" if label is None else f"the image {label!r}"
        raise ToolchainError(f"{reference} is {what}, not {image.name}: not taken")
    if pulled["Architecture"] != architecture:
        raise ToolchainError(
            f"{reference} is for {pulled['Architecture']} machines, not for {architecture}: not taken",
            f"build it here: toolchain image build {image.name}",
        )


@contextmanager
def _tagged(engine: Engine, tag: str | None, repository: str) -> Iterator[None]:
    """Tag an image with the registry's name for the duration of the block, then restore the tag."""
    import docker.errors

    full = f"{repository}:{_TAG}"
    before = engine.image(full)
    if tag is not None:
        with engine.request(f"name {tag} {full}"):
            engine.api.tag(tag, repository, _TAG)
    try:
        yield
    finally:
        with engine.request(f"give back the name {full}"), suppress(docker.errors.NotFound):
            if before is not None:
                engine.api.tag(before["Id"], repository, _TAG)
            else:
                engine.api.remove_image(full)


def _explained(verb: str, image: Image, registry: str) -> AbstractContextManager[None]:
    absent = f"push it there first: `toolchain image push {image.name} --registry {registry}`"
    return explained(f"{verb} {image.name}", registry, absent)
