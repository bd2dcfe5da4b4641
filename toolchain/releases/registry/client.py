"""Requests to a registry by oras; credentials are those of Docker's own configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolchain.errors import CheckError, ToolchainError
from toolchain.releases.registry.address import ReleaseAddress
from toolchain.releases.registry.media import LARGEST_MANIFEST, MANIFEST, Descriptor
from toolchain.releases.registry.opening import authority_of, open_registry

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
