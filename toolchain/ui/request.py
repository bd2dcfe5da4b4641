"""Reads the head of an HTTP request, and refuses requests that may not come from our page."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

HTTP_PORT = 80
"""The port that an address without one means."""

MOST_HEAD = 16 * 1024
"""Largest length in bytes of a request's head; browsers send less than 2 KiB."""

_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]{0,2048}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):([ -~\t\x80-\xff]*)")


class PageRefusedError(Exception):
    """A request that is not answered: its HTTP status, and the reason for the person who sent it."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class PageRequest:
    """The head of a request; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


def parse_request(head: bytes) -> PageRequest:
    """Return the request whose head, up to the empty line, is given.

    Raises
    ------
    PageRefusedError
        It is no HTTP request, or has a header twice.
    """
    first, *rest = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    headers: dict[str, str] = {}
    for line in rest:
        header = _HEADER.fullmatch(line)
        if header is None or header[1].lower() in headers:
            raise PageRefusedError(HTTPStatus.BAD_REQUEST, "this is no request of a browser")
        headers[header[1].lower()] = header[2].strip(" \t")
    if found is None:
        raise PageRefusedError(HTTPStatus.BAD_REQUEST, "this is no request of a browser")
    return PageRequest(found[1], found[2], headers)


def check_request(request: PageRequest, port: int, token: str) -> str:
    """Return the path below the token's folder.

    Raises
    ------
    PageRefusedError
        The request has another method than GET, names another host (DNS rebinding), comes from another
        site's page, or lacks the token.
    """
    if request.method != "GET":
        raise PageRefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered")
    names = ("127.0.0.1", "localhost", "[::1]")
    hosts = {f"{name}:{port}" for name in names}
    if port == HTTP_PORT:  # browsers leave it out
        hosts.update(names)
    if request.headers.get("host", "").lower() not in hosts:
        raise PageRefusedError(HTTPStatus.FORBIDDEN, f"this page is at 127.0.0.1:{port}, under no other name")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().removeprefix("http://") not in hosts:
        raise PageRefusedError(HTTPStatus.FORBIDDEN, "another site's page may not read this one")
    mode, site = (request.headers.get(f"sec-fetch-{name}", "") for name in ("mode", "site"))
    if site not in ("", "none", "same-origin") and mode != "navigate":
        raise PageRefusedError(HTTPStatus.FORBIDDEN, "another site's page may not read this one")
    given, slash, path = request.path.removeprefix("/").partition("/")
    if not secrets.compare_digest(given.encode("latin-1"), token.encode()) or not slash:
        raise PageRefusedError(HTTPStatus.NOT_FOUND, "open the address that `toolchain ui` printed")
    return path
