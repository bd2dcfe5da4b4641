"""Releases to and from registries."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from toolchain.errors import CheckError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.releases.envelope import MOST_BYTES
from toolchain.releases.registry.artifact import (
    BUNDLE,
    CONFIG,
    EMPTY,
    ENVELOPE,
    Layers,
    ReleaseAddress,
    describe_file,
    parse_manifest,
    write_manifest,
)
from toolchain.releases.registry.client import RegistryClient
from toolchain.releases.signed_release import ReleaseKeys, SignedRelease, release_path, verify_release


def push(address: ReleaseAddress, bundle: Path, envelope: Path, app: str, version: str) -> str:
    """Send a bundle and its envelope; return the digest of their manifest.

    The manifest goes last: a tag never names a release that is not there whole.

    Raises
    ------
    ToolchainError
        The registry is not reached, or does not take it.
    """
    layers = Layers(describe_file(bundle, BUNDLE), describe_file(envelope, ENVELOPE))
    with closing(RegistryClient(address)) as client, scratch_folder() as scratch:
        empty = scratch / "config"
        empty.write_bytes(EMPTY)
        config = describe_file(empty, CONFIG)
        for descriptor, file in ((layers.bundle, bundle), (layers.envelope, envelope), (config, empty)):
            client.send(descriptor, file)
        return client.send_manifest(write_manifest(layers, config, app, version))


def fetch(address: ReleaseAddress, bundle: Path, envelope: Path) -> str:
    """Write a release's two files, checked against the digests of its manifest; return the manifest's digest.

    Who signed it is not checked.

    Raises
    ------
    ToolchainError
        The registry is not reached, or does not have it.
    UsageError
        What it has is no release.
    CheckError
        A digest or a size differs.
    """
    with closing(RegistryClient(address)) as client:
        manifest = client.manifest()
        layers = parse_manifest(manifest, address, MOST_BYTES)
        client.fetch(layers.envelope, envelope)
        client.fetch(layers.bundle, bundle)
    return f"sha256:{hashlib.sha256(manifest).hexdigest()}"


def pull(address: ReleaseAddress, output: Path, allowed: ReleaseKeys) -> tuple[str, SignedRelease]:
    """Fetch a release to `output` and `output`.release; return its manifest's digest, and the release.

    Both files get their names once all digests and signatures were checked.

    Raises
    ------
    CheckError
        A digest differs, or the release must not be installed.
    UsageError, ToolchainError
        As of `fetch`.
    """
    with atomic.replacing(output) as bundle, atomic.replacing(release_path(output)) as envelope:
        digest = fetch(address, bundle, envelope)
        try:
            signed = verify_release(bundle, allowed, envelope)
        except CheckError as error:
            message = error.message.replace(str(envelope), str(address)).replace(str(bundle), "its bundle")
            raise CheckError(f"{message}; nothing was written", error.hint) from error
    return digest, replace(signed, bundle=output, file=release_path(output))
