"""Releases to and from registries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MethodType
from typing import Any

from toolchain.errors import CheckError, MissingError, ToolchainError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.releases.envelope import MOST_BYTES
from toolchain.releases.registry.address import ReleaseAddress
from toolchain.releases.registry.media import (
    BUNDLE,
    CONFIG,
    EMPTY,
    ENVELOPE,
    LARGEST_MANIFEST,
    MANIFEST,
    Descriptor,
    Layers,
    describe_file,
    parse_manifest,
    write_manifest,
)
from toolchain.releases.signed import ReleaseKeys, SignedRelease, release_path, verify_release

# Opens a registry with oras: how it is reached, whom it believes, with which credentials.
#
# Left alone, oras reads no DOCKER_CONFIG, sends a password to the host that a registry calls its realm even
# where that is a text for people, waits without deadlines, and repeats what fails for two minutes.

CERTIFICATES = Path("/etc/docker/certs.d")  # where Docker looks for the authorities of registries
CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0


def open_registry(address: ReleaseAddress) -> Any:
    """Return oras's client of the address's registry, with the credentials of Docker's configuration.

    Raises
    ------
    MissingError
        oras is not installed.
    ToolchainError
        The registry wants a password over plain http.
    requests.exceptions.RequestException
        It cannot be reached.
    """
    try:
        from oras.logger import setup_logger
        from oras.provider import Registry
    except ImportError as error:
        raise MissingError(
            "releases in registries need the Python package oras", "pip install 'edge-toolchain[registry]'"
        ) from error
    setup_logger(quiet=True)  # errors are raised
    authority = authority_of(address)
    trusted = str(authority) if authority.is_file() else True
    prefix, challenge = _first_answer(address, trusted)
    backend = "basic" if challenge.lower().startswith("basic") else "token"
    if backend == "token" and 'realm="http:' in challenge and not address.is_loopback:
        raise ToolchainError(
            f"{address}: it wants credentials sent over plain http: {challenge[:200]}", "ask who runs it"
        )
    registry = Registry(address.registry, prefix == "http", trusted, backend)
    registry.do_request = MethodType(Registry.do_request.__wrapped__, registry)
    session = registry.session
    session.request = partial(session.request, timeout=(CONNECT_SECONDS, SILENCE_SECONDS))
    configuration = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    if configuration.is_file():
        registry.auth.load_configs(registry.get_container(str(address)), [str(configuration)])
    if backend == "basic" and not hasattr(registry.auth, "_basic_auth"):
        raise ToolchainError(f"{address}: unauthorized", f"log in: `docker login {address.registry}`")
    return registry


def authority_of(address: ReleaseAddress) -> Path:
    """Return the file of the authority that Docker trusts for this registry; it need not exist."""
    return CERTIFICATES / address.registry / "ca.crt"


def _first_answer(address: ReleaseAddress, trusted: str | bool) -> tuple[str, str]:
    """Return `https`, or `http` if this machine speaks only that; and how it asks for credentials."""
    import requests

    for prefix in ("https", "http"):
        try:
            response = requests.get(
                f"{prefix}://{address.registry}/v2/",
                verify=trusted,
                allow_redirects=False,
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            )
        except requests.exceptions.SSLError as error:
            if prefix == "http" or not address.is_loopback or "verify failed" in str(error):
                raise
        else:
            return prefix, response.headers.get("Www-Authenticate", "")
    raise AssertionError("one of the two answers or raises")


# Requests to a registry by oras; credentials are those of Docker's own configuration.

_CHUNK = 2**20
# What requests or oras say → what to do about it. The first that fits counts.
_HINTS = (
    ("certificate verify failed", "its certificate is not trusted: put its authority's into {certificate}"),
    (
        "wrong version number",
        "it speaks http, which is taken from this machine alone; give the registry a certificate",
    ),
    ("authentication", "log in: `docker login {host}`"),
    ("unauthorized", "log in: `docker login {host}`"),
    ("forbidden", "log in as a user who may: `docker login {host}`"),
    ("refused", "does a registry listen at {host}? Is the port right?"),
    ("name resolution", "is the name of the registry right?"),
    ("not known", "is the name of the registry right?"),
)


class _Content:
    """A file as the body of requests: each sends it from the start, in pieces with a deadline each."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.size = file.stat().st_size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[bytes]:
        with self.file.open("rb") as opened:
            while piece := opened.read(_CHUNK):
                yield piece


class RegistryClient:
    """A registry that one command talks to. oras checks no digests, so this does.

    Raises
    ------
    MissingError
        oras is not installed.
    ToolchainError
        The registry cannot be reached.
    """

    def __init__(self, address: ReleaseAddress) -> None:
        self.address = address
        with self._asked():
            self._oras = open_registry(address)
        self._container = self._oras.get_container(str(address))

    def close(self) -> None:
        """Close the connections."""
        self._oras.session.close()

    def manifest(self) -> bytes:
        """Return the manifest that the address names, unchanged.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, does not let anybody in, or has no such manifest.
        CheckError
            It is not the manifest whose digest the address, or the registry itself, names.
        """
        url = f"{self._oras.prefix}://{self._container.manifest_url()}"
        response = self._ask("GET", url, headers={"Accept": MANIFEST}, stream=True)
        text = self._read(response, LARGEST_MANIFEST + 1)
        if len(text) > LARGEST_MANIFEST:
            raise CheckError(f"{self.address}: its manifest has more than {LARGEST_MANIFEST} bytes")
        wanted = self.address.digest or response.headers.get("Docker-Content-Digest")
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        if wanted not in (None, digest):
            raise _changed(self.address, f"manifest is {digest}, not {wanted}")
        return text

    def fetch(self, blob: Descriptor, target: Path) -> None:
        """Write a blob to a file.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, or does not have the blob.
        CheckError
            Its size or digest is not what the manifest says.
        """
        url = f"{self._oras.prefix}://{self._container.get_blob_url(blob.digest)}"
        response = self._ask("GET", url, stream=True)
        digest, received = hashlib.sha256(), 0
        with target.open("wb") as file, self._asked():
            for piece in response.iter_content(_CHUNK):
                received += len(piece)
                if received > blob.size:
                    break
                digest.update(piece)
                file.write(piece)
        if received != blob.size:
            more = "more" if received > blob.size else f"{received}"
            raise _changed(self.address, f"{blob.digest} has {more} bytes, its manifest says {blob.size}")
        if f"sha256:{digest.hexdigest()}" != blob.digest:
            raise _changed(self.address, f"{blob.digest} is sha256:{digest.hexdigest()}")

    def send(self, blob: Descriptor, content: Path) -> None:
        """Upload a blob that the registry does not have.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, or refuses it.
        """
        with self._asked():
            if self._oras.blob_exists({"digest": blob.digest}, self._container):
                return
        uploads = f"{self._oras.prefix}://{self._container.upload_blob_url()}"
        begun = self._ask("POST", uploads, headers={"Content-Length": "0"})
        location = self._oras._get_location(begun, self._container)
        url = f"{location}{'&' if '?' in location else '?'}digest={blob.digest}"
        self._ask("PUT", url, data=_Content(content), headers={"Content-Type": "application/octet-stream"})

    def send_manifest(self, text: bytes) -> str:
        """Upload a manifest under the address's tag; return its digest.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, or refuses it.
        """
        url = f"{self._oras.prefix}://{self._container.manifest_url()}"
        self._ask("PUT", url, data=text, headers={"Content-Type": MANIFEST})
        return f"sha256:{hashlib.sha256(text).hexdigest()}"

    def _ask(self, method: str, url: str, **options: Any) -> Any:
        with self._asked():
            response = self._oras.do_request(url, method, **options)
        if response.status_code >= 400:
            raise self._refused(self._said(response), response.status_code)
        return response

    def _read(self, response: Any, most: int) -> bytes:
        text = b""
        with self._asked():
            for piece in response.iter_content(_CHUNK):
                text += piece
                if len(text) >= most:
                    break
        return text

    def _said(self, response: Any) -> str:
        """Return the first error that a registry's answer names, else the reason in its status line."""
        try:
            first = response.json()["errors"][0]
            return f"{first['code']}: {first['message']}"[:300].lower()
        except (ValueError, KeyError, IndexError, TypeError):
            return f"{response.status_code} {response.reason}"

    @contextmanager
    def _asked(self) -> Iterator[None]:
        import requests

        try:
            yield
        except (requests.exceptions.RequestException, ValueError) as error:  # oras raises ValueError
            raise self._refused(str(error)) from error

    def _refused(self, said: str, status: int = 0) -> ToolchainError:
        host = self.address.registry
        hint = next((hint for words, hint in _HINTS if words in said.lower()), "")
        if status == 404:
            hint = "push it there first: `toolchain release push`; is the tag right?"
        return ToolchainError(
            f"{self.address}: {said}", hint.format(host=host, certificate=authority_of(self.address))
        )


def _changed(address: ReleaseAddress, what: str) -> CheckError:
    return CheckError(
        f"{address}: {what}; nothing was written",
        "the registry's store is damaged, or somebody changed it: push the release again",
    )


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
            said = error.message.replace(str(envelope), str(address)).replace(str(bundle), "its bundle")
            raise CheckError(f"{said}; nothing was written", error.hint) from error
    return digest, replace(signed, bundle=output, file=release_path(output))
