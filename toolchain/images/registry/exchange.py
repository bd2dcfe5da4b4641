"""Images to and from a registry, by the engine; credentials are those of Docker's own configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from toolchain.architectures.table import of_debian
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.catalogue import REPOSITORY, Image
from toolchain.images.engine import IMAGE_LABEL, Engine
from toolchain.images.registry.names import HOST, PATH
from toolchain.images.registry.transfer import explained, listen

_TAG = "latest"
_REGISTRY = re.compile(rf"{HOST}(/{PATH})?")


@dataclass(frozen=True)
class Transferred:
    """An image that a registry has.

    Attributes
    ----------
    reference
        What it is called there, by its digest: `REGISTRY/edge-toolchain/NAME@sha256:…`.
    id
        What the engine here calls it.
    """

    name: str
    reference: str
    digest: str
    id: str

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def checked_registry(text: str) -> str:
    """Return a `HOST[:PORT][/PREFIX]`.

    Raises
    ------
    UsageError
        It is something else, a URL for instance.
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
        The registry is not reached, or does not take it.
    """
    found = engine.image_labels(image.tag)
    if found is None:
        raise MissingError(f"the image {image.name} is not here", f"toolchain image build {image.name}")
    if found.get(IMAGE_LABEL) != image.name:
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
        made = str(engine.api.inspect_image(image.tag)["Id"])
    return Transferred(image.name, f"{repository}@{digest}", digest, made)


def pull(engine: Engine, image: Image, registry: str, progress: Callable[[str], None]) -> Transferred:
    """Fetch an image from a registry; it takes the place of the one here.

    Raises
    ------
    ToolchainError
        The registry is not reached or does not have it, or what it has under that name is another
        image: nothing here has changed then.
    """
    repository = _repository(registry, image)
    with _tagged(engine, None, repository), _explained("pull", image, registry):
        digest = ""
        fetch = partial(engine.api.pull, repository, tag=_TAG, stream=True, decode=True)
        for event in listen(fetch, image.name, progress):
            status = str(event.get("status", ""))
            digest = status.removeprefix("Digest: ") if status.startswith("Digest: ") else digest
        got = engine.api.inspect_image(f"{repository}:{_TAG}")
        _check(image, got, _go_architecture(engine, image), f"{repository}@{digest}")
        engine.api.tag(got["Id"], *image.tag.split(":"))
    engine.remove_superseded(image.name, image.tag)
    return Transferred(image.name, f"{repository}@{digest}", digest, str(got["Id"]))


def _repository(registry: str, image: Image) -> str:
    return f"{registry}/{REPOSITORY}/{image.name}"


def _go_architecture(engine: Engine, image: Image) -> str:
    if not image.system:
        return str(engine.api.version()["Arch"])
    return of_debian(image.system).docker


def _check(image: Image, got: dict[str, Any], architecture: str, reference: str) -> None:
    label = (got["Config"]["Labels"] or {}).get(IMAGE_LABEL)
    if label != image.name:
        what = "none of this toolchain's images" if label is None else f"the image {label!r}"
        raise ToolchainError(f"{reference} is {what}, not {image.name}: not taken")
    if got["Architecture"] != architecture:
        raise ToolchainError(
            f"{reference} is for {got['Architecture']} machines, not for {architecture}: not taken",
            f"build it here: toolchain image build {image.name}",
        )


@contextmanager
def _tagged(engine: Engine, tag: str | None, repository: str) -> Iterator[None]:
    """Give an image the registry's name for the time being; at the end the name is as it was before."""
    import docker.errors

    full = f"{repository}:{_TAG}"
    before = engine.image(full)
    if tag is not None:
        with engine.asked(f"name {tag} {full}"):
            engine.api.tag(tag, repository, _TAG)
    try:
        yield
    finally:
        with engine.asked(f"give back the name {full}"), suppress(docker.errors.NotFound):
            if before is not None:
                engine.api.tag(before["Id"], repository, _TAG)
            else:
                engine.api.remove_image(full)


def _explained(verb: str, image: Image, registry: str) -> AbstractContextManager[None]:
    absent = f"push it there first: `toolchain image push {image.name} --registry {registry}`"
    return explained(f"{verb} {image.name}", registry, absent)
