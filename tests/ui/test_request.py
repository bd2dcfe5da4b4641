"""Which requests are answered: those of our own page alone."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from toolchain.ui.server import PageRefusedError, check_request, parse_request

TOKEN = "token"  # noqa: S105


def status(text: str) -> int:
    """Return the status of a request to port 8000."""
    try:
        check_request(parse_request(text.replace("\n", "\r\n").encode("latin-1")), 8000, TOKEN)
    except PageRefusedError as error:
        return error.status
    return HTTPStatus.OK


def answer_to(
    path: str = "/token/", method: str = "GET", host: str = "127.0.0.1:8000", more: str = ""
) -> int:
    return status(f"{method} {path} HTTP/1.1\nHost: {host}\n{more}\n")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"])
def test_page_is_served_at_loopback(host: str) -> None:
    assert answer_to(host=host) == 200
    assert answer_to(host=host, more=f"Origin: http://{host}\nSec-Fetch-Site: same-origin\n") == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8000", "evil.example", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8000.evil.example"),
        *("127.0.0.1.evil.example:8000", "localhost.:8000", "0.0.0.0:8000", "127.1:8000", "x@localhost:8000"),
        "",
    ],
)
def test_refuses_other_host_names(host: str) -> None:
    """A name that an attacker binds to 127.0.0.1 makes a browser take his page for ours."""
    assert answer_to(host=host) == 403


def test_only_port_80_may_be_omitted() -> None:
    def answer(port: int, host: str, origin: str) -> int:
        head = f"GET /token/ HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n"
        try:
            check_request(parse_request(head.encode()), port, TOKEN)
        except PageRefusedError as error:
            return error.status
        return HTTPStatus.OK

    assert answer(80, "127.0.0.1", "http://127.0.0.1") == 200
    assert answer(80, "localhost:80", "http://localhost") == 200
    assert answer(80, "evil.example", "http://evil.example") == 403
    assert answer(8000, "127.0.0.1", "http://127.0.0.1:8000") == 403


def test_refuses_requests_without_a_host() -> None:
    assert status("GET /token/ HTTP/1.1\n\n") == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:8000",
        "http://127.0.0.1:8001",
        "http://127.0.0.1",
        "",
    ],
)
def test_refuses_other_origins(origin: str) -> None:
    assert answer_to(more=f"Origin: {origin}\n") == 403


def test_respects_fetch_metadata() -> None:
    for site in ("cross-site", "same-site"):
        assert answer_to(more=f"Sec-Fetch-Site: {site}\nSec-Fetch-Mode: cors\n") == 403
        assert answer_to(more=f"Sec-Fetch-Site: {site}\nSec-Fetch-Mode: no-cors\n") == 403
        assert answer_to(more=f"Sec-Fetch-Site: {site}\nSec-Fetch-Mode: navigate\n") == 200, (
            "a link was followed"
        )
    assert answer_to(more="Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\n") == 200, "typed by a person"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "PATCH"])
def test_refuses_methods_that_change_something(method: str) -> None:
    assert answer_to(method=method) == 405


@pytest.mark.parametrize(
    "path", ["/", "/toke/", "/tokenn/", "/Token/", "//token/", "/token", "/x/token/", "/%74oken/"]
)
def test_refuses_requests_without_the_token(path: str) -> None:
    assert answer_to(path) == 404


def test_refuses_tokens_of_other_lengths() -> None:
    with pytest.raises(PageRefusedError):
        check_request(parse_request(b"GET // HTTP/1.1\r\nHost: localhost:8000\r\n\r\n"), 8000, TOKEN)


@pytest.mark.parametrize(
    "text",
    [
        "\n\n",
        "GET\n\n",
        "GET /token/\n\n",
        "GET /token/ HTTP/2\n\n",
        "get /token/ HTTP/1.1\n\n",
        "GET http://127.0.0.1:8000/token/ HTTP/1.1\nHost: 127.0.0.1:8000\n\n",
        "GET /token/ HTTP/1.1 \nHost: 127.0.0.1:8000\n\n",
        "GET /tok en/ HTTP/1.1\nHost: 127.0.0.1:8000\n\n",
        "GET /token/\x00 HTTP/1.1\nHost: 127.0.0.1:8000\n\n",
        "GET /token/ HTTP/1.1\nHost: 127.0.0.1:8000\nHost: evil.example\n\n",
        "GET /token/ HTTP/1.1\nHost : 127.0.0.1:8000\n\n",
        "GET /token/ HTTP/1.1\nHost: 127.0.0.1:8000\n folded\n\n",
        "GET /token/ HTTP/1.1\nHost: 127.0.0.1:8000\nX\n\n",
        "GET /token/ HTTP/1.1\nHost: 127.0.0.1:8000\x00\n\n",
        "GET /token/ HTTP/1.1\nHost: 127.0.0.1:8000\nX: " + "y\x01" + "\n\n",
    ],
)
def test_refuses_malformed_requests(text: str) -> None:
    assert status(text) == 400
