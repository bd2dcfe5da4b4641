"""Speaks with an OCI registry by its distribution specification; every request has a deadline.

Rules, in the order in which they count:

1. Plain http is spoken with this machine alone, and no redirect leads from https to it.
2. Credentials are those of Docker's configuration. A password goes to the registry itself, or as Docker sends
   it to the realm that the registry names for tokens, by https unless the registry is this machine.
3. Neither password nor token follows a redirect or a location to another host.
4. Every answer has a limit in bytes; whoever takes one checks its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from toolchain.errors import CheckError, ToolchainError
from toolchain.foreign import printable, shortened
from toolchain.releases.registry.artifact import (
    LARGEST_MANIFEST,
    MANIFEST,
    Descriptor,
    ReleaseAddress,
    is_loopback,
)
from toolchain.releases.registry.credentials import json_object, password_for

if TYPE_CHECKING:
    from requests import Response

CERTIFICATES = Path("/etc/docker/certs.d")  # where Docker looks for the authorities of registries
CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 60.0
_CHUNK = 2**20
_LARGEST_ANSWER = 2**18  # bytes of tokens and of errors
_MOST_REDIRECTS = 5
_PARAMETER = re.compile(r'([A-Za-z]+)="([^"]*)"')

# What requests or a registry say → what to do about it. The first that fits counts.
_HINTS = (
    ("certificate verify failed", "its certificate is not trusted: put its authority's into {certificate}"),
    (
        "wrong version number",
        "it speaks http, which is taken from this machine alone; give the registry a certificate",
    ),
    ("authentication", "log in: `docker login {host}`"),
    ("unauthorized", "log in: `docker login {host}`"),
    ("forbidden", "log in as a user who may: `docker login {host}`"),
    ("denied", "log in as a user who may: `docker login {host}`"),
    ("refused", "does a registry listen at {host}? Is the port right?"),
    ("name resolution", "is the name of the registry right?"),
    ("not known", "is the name of the registry right?"),
)


def authority_of(address: ReleaseAddress) -> Path:
    """Return the file of the authority that Docker trusts for this registry; it need not exist."""
    return CERTIFICATES / address.registry / "ca.crt"


class FileBody:
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
    """A registry that one command talks to.

    Raises
    ------
    ToolchainError
        The registry cannot be reached, or wants credentials in an unsafe way.
    """

    def __init__(self, address: ReleaseAddress) -> None:
        import requests

        self.address = address
        self._session = requests.Session()
        authority = authority_of(address)
        self._verify = str(authority) if authority.is_file() else True
        self._session.auth = _no_authorization  # requests would take passwords from ~/.netrc
        self._authorization = ""
        try:
            self._base = self._reached()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def manifest(self) -> bytes:
        """Return the manifest that the address names, unchanged.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, does not let anybody in, or has no such manifest.
        CheckError
            It is not the manifest whose digest the address, or the registry itself, names.
        """
        response = self._request("GET", self._manifest_url(), headers={"Accept": MANIFEST})
        text = self._content(response, LARGEST_MANIFEST + 1)
        if len(text) > LARGEST_MANIFEST:
            raise CheckError(f"{self.address}: its manifest has more than {LARGEST_MANIFEST} bytes")
        wanted = self.address.digest or response.headers.get("Docker-Content-Digest")
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        if wanted not in (None, digest):
            raise _changed(self.address, f"manifest is {digest}, not {shortened(str(wanted))}")
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
        # As it is: unpacking on the way would read more than what was asked for.
        response = self._request(
            "GET", self._url(f"blobs/{blob.digest}"), headers={"Accept-Encoding": "identity"}
        )
        digest, received = hashlib.sha256(), 0
        with target.open("wb") as file, self._named_errors():
            for piece in response.iter_content(_CHUNK):
                received += len(piece)
                if received > blob.size:
                    break
                digest.update(piece)
                file.write(piece)
        response.close()
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
        if self._request("HEAD", self._url(f"blobs/{blob.digest}"), expected=(404, 405)).status_code == 200:
            return
        uploads = self._url("blobs/uploads/")
        begun = self._request("POST", uploads, headers={"Content-Length": "0"})
        location = begun.headers.get("Location", "")
        if not location:
            raise self._refused("it began an upload and does not say where")
        url = self._allowed(urljoin(begun.url, location))
        self._request(
            "PUT",
            f"{url}{'&' if '?' in url else '?'}digest={blob.digest}",
            data=FileBody(content),
            headers={"Content-Type": "application/octet-stream"},
        )

    def send_manifest(self, text: bytes) -> str:
        """Upload a manifest under the address's tag; return its digest.

        Raises
        ------
        ToolchainError
            The registry cannot be reached, or refuses it.
        """
        self._request("PUT", self._manifest_url(), data=text, headers={"Content-Type": MANIFEST})
        return f"sha256:{hashlib.sha256(text).hexdigest()}"

    def _url(self, path: str) -> str:
        return f"{self._base}/v2/{self.address.repository}/{path}"

    def _manifest_url(self) -> str:
        return self._url(f"manifests/{self.address.digest or self.address.tag}")

    def _reached(self) -> str:
        """Return the registry's URL: https, or http if this machine speaks only that."""
        import requests

        for scheme in ("https", "http"):
            base = f"{scheme}://{self.address.registry}"
            try:
                with self._named_errors(requests.exceptions.SSLError):
                    self._once("GET", f"{base}/v2/").close()
            except requests.exceptions.SSLError as error:
                is_last = scheme == "http" or not self.address.is_loopback
                if is_last or "verify failed" in str(error):
                    raise self._refused(str(error)) from error
            else:
                return base
        raise AssertionError("one of the two answers or raises")

    def _request(self, method: str, url: str, expected: tuple[int, ...] = (), **options: Any) -> Response:
        """Send a request, with credentials if it is asked for them, and follow redirects."""
        asked = False
        for _ in range(_MOST_REDIRECTS + 2):
            with self._named_errors():
                response = self._once(method, url, **options)
            status = response.status_code
            if status == 401 and not asked and self._is_own(url):
                asked = True
                self._log_in(response.headers.get("Www-Authenticate", ""))
            elif status in (307, 308) or (status in (301, 302, 303) and method in ("GET", "HEAD")):
                url = self._allowed(urljoin(url, response.headers.get("Location", "")))
            elif status >= 300 and status not in expected:
                raise self._refused(self._reason(response), status)
            else:
                return response
            response.close()
        raise self._refused(f"it redirects more than {_MOST_REDIRECTS} times")

    def _once(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **options: Any
    ) -> Response:
        own = {"Authorization": self._authorization} if self._authorization and self._is_own(url) else {}
        return self._session.request(
            method,
            url,
            headers={**own, **(headers or {})},
            stream=True,
            allow_redirects=False,
            verify=self._verify,  # for each: that of the session is second to REQUESTS_CA_BUNDLE
            timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            **options,
        )

    def _is_own(self, url: str) -> bool:
        """Whether a URL is the registry's own, which may hear what lets this user in."""
        return f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" == self._base

    def _allowed(self, url: str) -> str:
        """Return a URL that a registry named; refuse one that others could read on the way."""
        if self._is_private(url):
            return url
        raise self._refused(f"it leads to {shortened(url)}, and plain http is taken from this machine alone")

    def _is_private(self, url: str) -> bool:
        """Whether nobody reads a request to a URL on its way: https, or this machine's http to itself."""
        parts = urlsplit(url)
        local = self.address.is_loopback and is_loopback(parts.netloc)
        return parts.scheme == "https" or (parts.scheme == "http" and local)

    def _log_in(self, challenge: str) -> None:
        """Answer the question for credentials: a password, or a token that a password or nothing buys."""
        scheme, _, rest = challenge.partition(" ")
        password = password_for(self.address.registry)
        if scheme.lower() == "basic":
            if not password:
                raise self._refused("unauthorized")
            self._authorization = f"Basic {password}"
            return
        parameters = dict(_PARAMETER.findall(rest))
        realm = parameters.get("realm", "")
        if scheme.lower() != "bearer" or not realm:
            raise self._refused(f"it asks for credentials in an unknown way: {shortened(challenge)}")
        if urlsplit(realm).scheme != "https" and not (
            urlsplit(realm).scheme == "http"
            and self.address.is_loopback
            and is_loopback(urlsplit(realm).netloc)
        ):
            raise ToolchainError(
                f"{self.address}: it wants credentials sent over plain http: {shortened(challenge)}",
                "ask who runs it",
            )
        query = {name: parameters[name] for name in ("service", "scope") if name in parameters}
        headers = {"Authorization": f"Basic {password}"} if password else {}
        with self._named_errors():
            response = self._once("GET", realm, headers, params=query)
        if response.status_code != 200:
            raise self._refused(f"unauthorized: {self._reason(response)}")
        answer = json_object(self._content(response, _LARGEST_ANSWER))
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise self._refused("unauthorized: the answer to a question for a token has none")
        self._authorization = f"Bearer {token}"

    def _content(self, response: Response, most: int) -> bytes:
        """Return the first `most` bytes of an answer, or a little more."""
        text = b""
        with self._named_errors():
            for piece in response.iter_content(min(_CHUNK, most)):
                text += piece
                if len(text) >= most:
                    break
        response.close()
        return text

    def _reason(self, response: Response) -> str:
        """Return the first error that a registry's answer names, else the reason in its status line."""
        try:
            first = json_object(self._content(response, _LARGEST_ANSWER))["errors"][0]
            return shortened(f"{first['code']}: {first['message']}").lower()
        except (KeyError, IndexError, TypeError):
            return f"{response.status_code} {shortened(str(response.reason))}"

    @contextmanager
    def _named_errors(self, *passed: type[Exception]) -> Iterator[None]:
        """Turn errors of requests into ours, but for those that are `passed`."""
        import requests

        try:
            yield
        except passed:
            raise
        except (requests.exceptions.RequestException, ValueError) as error:  # ValueError: a URL that is none
            raise self._refused(printable(str(error))) from error

    def _refused(self, reason: str, status: int = 0) -> ToolchainError:
        host = self.address.registry
        hint = next((hint for words, hint in _HINTS if words in reason.lower()), "")
        if status == 404:
            hint = "push it there first: `toolchain release push`; is the tag right?"
        return ToolchainError(
            f"{self.address}: {reason}", hint.format(host=host, certificate=authority_of(self.address))
        )


def _no_authorization(request: Any) -> Any:
    return request


def _changed(address: ReleaseAddress, what: str) -> CheckError:
    return CheckError(
        f"{address}: {what}; nothing was written",
        "the registry's store is damaged, or somebody changed it: push the release again",
    )
