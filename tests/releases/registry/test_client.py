"""Registries that send a client elsewhere, ask for its password, or answer without end."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from toolchain.errors import CheckError, ToolchainError
from toolchain.releases.registry import client as speaking
from toolchain.releases.registry.artifact import BUNDLE, Descriptor, parse_address
from toolchain.releases.registry.client import RegistryClient
from toolchain.releases.registry.credentials import password_for

CONTENT = b"the bundle's bytes"
BLOB = Descriptor(
    media_type=BUNDLE, digest=f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", size=len(CONTENT)
)
PASSWORD = b64encode(b"anna:secret").decode()


@dataclass
class Request:
    """What a server was sent."""

    method: str
    path: str
    authorization: str | None


@dataclass
class Answer:
    """What a server says: a status, headers, a body."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Server:
    """A server that notes its requests and answers as it is told."""

    host: str
    requests: list[Request] = field(default_factory=list)
    answer: Callable[[Request], Answer] = lambda _: Answer()

    def secrets(self) -> set[str | None]:
        """Return what it was sent to be let in, by any request."""
        return {request.authorization for request in self.requests}


@contextmanager
def serving() -> Iterator[Server]:
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, self.headers.get("Authorization"))
            server.requests.append(request)
            answer = Answer() if self.path == "/v2/" else server.answer(request)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                with suppress(ConnectionError):  # the client has read enough
                    self.wfile.write(answer.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_any  # noqa: N815 - http.server's names

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.host = f"127.0.0.1:{listening.server_port}"
        threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        listening.shutdown()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve a registry for which Docker's configuration, and ~/.netrc, have passwords."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login anna password netrc\n")
    (tmp_path / ".netrc").chmod(0o600)
    with serving() as server:
        entry = {"auths": {server.host: {"auth": PASSWORD}}}
        (tmp_path / "config.json").write_text(json.dumps(entry))
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    with serving() as server:
        server.answer = lambda _: Answer(body=CONTENT)
        yield server


def behind(challenge: str, answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Return the answers of a registry that lets in whoever says anything."""

    def guarded(request: Request) -> Answer:
        return answer(request) if request.authorization else Answer(401, {"Www-Authenticate": challenge})

    return guarded


def fetch(registry: Server, folder: Path) -> bytes:
    with closing(RegistryClient(parse_address(f"{registry.host}/counter:1"))) as client:
        client.fetch(BLOB, folder / "blob")
    return (folder / "blob").read_bytes()


def test_a_redirect_takes_no_password_to_another_host(
    registry: Server, other: Server, tmp_path: Path
) -> None:
    away = f"http://{other.host}/store"
    registry.answer = behind('Basic realm="here"', lambda _: Answer(307, {"Location": away}))
    assert fetch(registry, tmp_path) == CONTENT
    assert registry.secrets() == {None, f"Basic {PASSWORD}"} and other.secrets() == {None}


def test_an_upload_takes_no_password_to_another_host(registry: Server, other: Server, tmp_path: Path) -> None:
    def answer(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(404)
        return Answer(202, {"Location": f"http://{other.host}/upload?part=1"})

    registry.answer = behind('Basic realm="here"', answer)
    (tmp_path / "content").write_bytes(CONTENT)
    with closing(RegistryClient(parse_address(f"{registry.host}/counter:1"))) as client:
        client.send(BLOB, tmp_path / "content")
    (upload,) = other.requests
    assert (upload.method, upload.authorization) == ("PUT", None)
    assert upload.path == f"/upload?part=1&digest={BLOB.digest}"


def test_the_realm_of_a_password_is_no_address(registry: Server, other: Server, tmp_path: Path) -> None:
    challenge = f'Basic realm="http://{other.host}/"'
    registry.answer = behind(challenge, lambda _: Answer(body=CONTENT))
    assert fetch(registry, tmp_path) == CONTENT
    assert other.requests == []


def test_a_token_is_bought_by_the_password_and_goes_to_the_registry_alone(
    registry: Server, other: Server, tmp_path: Path
) -> None:
    challenge = f'Bearer realm="http://{other.host}/token",service="reg",scope="repository:counter:pull"'
    registry.answer = behind(challenge, lambda _: Answer(body=CONTENT))
    other.answer = lambda _: Answer(body=b'{"access_token": "t0"}')
    assert fetch(registry, tmp_path) == CONTENT
    assert registry.secrets() == {None, "Bearer t0"} and other.secrets() == {f"Basic {PASSWORD}"}
    assert other.requests[0].path == "/token?service=reg&scope=repository%3Acounter%3Apull"


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        ('Bearer realm="http://example.org/token"', "wants credentials sent over plain http"),
        ('Bearer realm="ftp://example.org/token"', "wants credentials sent over plain http"),
        ('Bearer service="x"', "in an unknown way"),
        ('Negotiate realm="x"', "in an unknown way"),
        ("", "in an unknown way"),
    ],
)
def test_a_question_for_credentials_that_is_unsafe_or_unknown_gets_none(
    registry: Server, tmp_path: Path, challenge: str, says: str
) -> None:
    registry.answer = behind(challenge, lambda _: Answer(body=CONTENT))
    with pytest.raises(ToolchainError, match=says):
        fetch(registry, tmp_path)
    assert registry.secrets() == {None}


@pytest.mark.parametrize("token", [b"", b"[]", b'{"token": 1}', b'{"token": "a\\nb: c"}', b"{" * 10_000])
def test_an_answer_without_a_token_is_refused(
    registry: Server, other: Server, tmp_path: Path, token: bytes
) -> None:
    registry.answer = behind(f'Bearer realm="http://{other.host}/"', lambda _: Answer(body=CONTENT))
    other.answer = lambda _: Answer(body=token)
    with pytest.raises(ToolchainError, match="has none") as raised:
        fetch(registry, tmp_path)
    assert raised.value.hint == f"log in: `docker login {registry.host}`"


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("http://example.org/blob", "plain http is taken from this machine alone"),
        ("file:///etc/passwd", "leads to file:///etc/passwd"),
        ("/again", "redirects more than 5 times"),
        ("", "redirects more than 5 times"),
        ("http://[", "Invalid IPv6 URL"),
    ],
)
def test_a_redirect_that_leads_astray_is_not_followed(
    registry: Server, tmp_path: Path, location: str, says: str
) -> None:
    registry.answer = lambda _: Answer(307, {"Location": location})
    with pytest.raises(ToolchainError, match=says):
        fetch(registry, tmp_path)


def test_no_more_is_read_than_was_named(registry: Server, tmp_path: Path) -> None:
    registry.answer = lambda _: Answer(body=bytes(8 * 2**20))
    with pytest.raises(CheckError, match="has more bytes, its manifest says"):
        fetch(registry, tmp_path)
    assert (tmp_path / "blob").stat().st_size <= 2**20
    with (
        closing(RegistryClient(parse_address(f"{registry.host}/counter:1"))) as client,
        pytest.raises(CheckError, match="manifest has more than 65536 bytes"),
    ):
        client.manifest()


def test_an_error_without_end_is_not_read(registry: Server, tmp_path: Path) -> None:
    long = b'{"errors": [{"code": "X", "message": "' + b"m" * 2**20
    registry.answer = lambda _: Answer(500, body=long)
    with pytest.raises(ToolchainError, match="500 Internal Server Error"):
        fetch(registry, tmp_path)
    registry.answer = lambda _: Answer(403, body=b'{"errors": [{"code": "DENIED", "message": "\\u001b[2J"}]}')
    with pytest.raises(ToolchainError, match=r"denied: \\x1b\[2j") as raised:
        fetch(registry, tmp_path)
    assert "docker login" in raised.value.hint


def test_a_registry_that_stops_in_the_middle_is_given_up(
    registry: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaking, "SILENCE_SECONDS", 0.5)
    registry.answer = lambda _: Answer(headers={"Content-Length": str(len(CONTENT))}, body=CONTENT[:3])
    with pytest.raises(ToolchainError):
        fetch(registry, tmp_path)


def test_a_credential_helper_is_asked_and_its_failure_is_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    helper = tmp_path / "docker-credential-toy"
    helper.write_text(
        '#!/bin/sh\nread host; echo "{\\"Username\\": \\"anna\\", \\"Secret\\": \\"of $host\\"}"\n'
    )
    helper.chmod(0o700)

    def configured(**keys: object) -> str:
        (tmp_path / "config.json").write_text(json.dumps(keys))
        return password_for("example.org:5000")

    secret = b64encode(b"anna:of example.org:5000").decode()
    assert configured(credsStore="toy") == configured(credHelpers={"example.org:5000": "toy"}) == secret
    assert configured(auths={"example.org:5000": {"auth": PASSWORD}}, credsStore="toy") == PASSWORD
    assert configured(auths={"example.org:5000": {}}, credsStore="toy") == secret
    for odd in ("none", "../toy", 3, None):
        assert configured(credsStore=odd) == ""
    helper.write_text("#!/bin/sh\necho no JSON\n")
    assert configured(credsStore="toy") == ""
    (tmp_path / "config.json").write_text("no JSON")
    assert password_for("example.org:5000") == ""


def test_both_names_of_this_machine_have_one_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"localhost:1": {"auth": PASSWORD}}}))
    assert password_for("127.0.0.1:1") == password_for("localhost:1") == PASSWORD
    assert password_for("127.0.0.10:1") == password_for("localhost.example.org:1") == ""
