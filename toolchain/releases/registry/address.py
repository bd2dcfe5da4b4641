"""Addresses of releases in registries: `HOST[:PORT]/REPOSITORY[:TAG][@sha256:…]`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from toolchain.errors import UsageError
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
        """Whether the registry is this machine, by the rule of Docker: `localhost` and 127.0.0.0/8."""
        host = self.registry.partition(":")[0]
        return host == "localhost" or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def parse_address(text: str) -> ReleaseAddress:
    """Return an address with a tag or a digest.

    Raises
    ------
    UsageError
        It is something else, such as a URL, or has neither.
    """
    found = _ADDRESS.fullmatch(text)
    if not found:
        raise UsageError(
            f"{text}: not HOST[:PORT]/REPOSITORY:TAG",
            "such as registry.example.org/team/counter:1.4.0; without https://",
        )
    address = ReleaseAddress(found["registry"], found["repository"], found["tag"], found["digest"])
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
