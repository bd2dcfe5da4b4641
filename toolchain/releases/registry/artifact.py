"""A release in an OCI registry: its address, `HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`, and its manifest."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from toolchain.answers import problem
from toolchain.errors import CheckError, UsageError
from toolchain.images.registry.names import HOST, PATH

# A registry is named always, as in `toolchain image push --registry`.
_ADDRESS = re.compile(
    rf"(?P<registry>{HOST})/(?P<repository>{PATH})"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class ReleaseAddress:
    """Where a release is: a registry, a repository, and a tag or the digest of a manifest.

    Attributes
    ----------
    registry
        `HOST[:PORT]`.
    """

    registry: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        tag, digest = (f":{self.tag}" if self.tag else ""), (f"@{self.digest}" if self.digest else "")
        return f"{self.registry}/{self.repository}{tag}{digest}"

    def pinned(self, digest: str) -> ReleaseAddress:
        """Return the address of that manifest, whatever the tag points to later."""
        return replace(self, tag=None, digest=digest)

    @property
    def is_loopback(self) -> bool:
        """Whether the registry is this machine."""
        return is_loopback(self.registry)


def is_loopback(registry: str) -> bool:
    """Whether `HOST[:PORT]` is this machine, by the rule of Docker: `localhost` and 127.0.0.0/8."""
    host = registry.partition(":")[0]
    return host == "localhost" or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def parse_address(text: str) -> ReleaseAddress:
    """Return an address with a tag or a digest.

    Raises
    ------
    UsageError
        It is something else, such as a URL, or has neither.
    """
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise UsageError(
            f"{text}: not HOST[:PORT]/REPOSITORY:TAG",
            "such as registry.example.org/team/counter:1.4.0; without https://",
        )
    address = ReleaseAddress(match["registry"], match["repository"], match["tag"], match["digest"])
    if not address.tag and not address.digest:
        raise UsageError(f"{text}: neither a tag nor a digest", f"such as {text}:1.4.0")
    return address


def push_address(text: str) -> ReleaseAddress:
    """Return an address to push to: one with a tag alone.

    Raises
    ------
    UsageError
        It is something else.
    """
    address = parse_address(text)
    if address.digest:
        raise UsageError(
            f"{text}: a digest follows from what is pushed", f"leave out @{address.digest}, give a tag"
        )
    return address


# The manifest: two layers, the bundle and its envelope.

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.edge-toolchain.release.config.v1+json"
BUNDLE = "application/vnd.edge-toolchain.bundle.v1+tar"
ENVELOPE = "application/vnd.edge-toolchain.release.v1+json"
EMPTY = b"{}"  # the content of the configuration: what there is to know is signed, in the envelope
LARGEST_MANIFEST = 2**16  # bytes; ours have less than 2 KiB
_LARGEST_BUNDLE = 2**32


class Descriptor(BaseModel):
    """A blob as a manifest names it: type, digest, and size in bytes."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    media_type: Annotated[str, Field(alias="mediaType")]
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0, le=_LARGEST_BUNDLE, strict=True)]

    def to_json(self) -> dict[str, object]:
        """Return it as a manifest has it."""
        return self.model_dump(by_alias=True)


class _Config(Descriptor):
    media_type: Annotated[
        Literal["application/vnd.edge-toolchain.release.config.v1+json"], Field(alias="mediaType")
    ]


class _Manifest(BaseModel):
    schema_version: Annotated[Literal[2], Field(alias="schemaVersion")]
    config: _Config
    layers: tuple[Descriptor, Descriptor]


@dataclass(frozen=True)
class Layers:
    """The two layers of a release."""

    bundle: Descriptor
    envelope: Descriptor


def describe_file(file: Path, media_type: str) -> Descriptor:
    """Return the descriptor of a file."""
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return Descriptor(media_type=media_type, digest=f"sha256:{digest}", size=file.stat().st_size)


def write_manifest(layers: Layers, config: Descriptor, title: str, version: str) -> bytes:
    """Return the manifest of a release; `title` and `version` are for people who look into the registry."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.to_json(),
        "layers": [layers.bundle.to_json(), layers.envelope.to_json()],
        "annotations": {
            "org.opencontainers.image.title": title,
            "org.opencontainers.image.version": version,
        },
    }
    return json.dumps(manifest, sort_keys=True).encode()


def parse_manifest(text: bytes, address: ReleaseAddress, largest_envelope: int) -> Layers:
    """Return the layers that a manifest names.

    Raises
    ------
    UsageError
        It is the manifest of something else, such as an image.
    CheckError
        A layer is larger than it may be.
    """
    try:
        manifest = _Manifest.model_validate_json(text)
        by_type = {layer.media_type: layer for layer in manifest.layers}
        layers = Layers(by_type[BUNDLE], by_type[ENVELOPE])
    except (ValidationError, KeyError) as error:
        reason = problem(error) if isinstance(error, ValidationError) else f"it has no layer of type {error}"
        raise UsageError(
            f"{address} is not a release: {reason}", "give an address that `toolchain release push` printed"
        ) from error
    if layers.envelope.size > largest_envelope:
        raise CheckError(
            f"{address}: its envelope has {layers.envelope.size} bytes, {largest_envelope} are allowed",
            "the registry's store is damaged, or somebody changed it: push the release again",
        )
    return layers
