"""Releases that go to a registry and come back, and registries whose store was damaged or changed."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import bcrypt
import pytest

from tests.images.docker_registry import docker_registry
from tests.releases.conftest import Release
from tests.releases.made import ANNA, DAY, EVE
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.releases.registry import client
from toolchain.releases.registry.artifact import EMPTY, ReleaseAddress, describe_file, parse_address
from toolchain.releases.registry.client import FileBody, RegistryClient
from toolchain.releases.registry.exchange import fetch, pull, push
from toolchain.releases.signed_release import ReleaseKeys, release_path

pytestmark = pytest.mark.slow

BUNDLE, ENVELOPE = b"the bundle's bytes" * 4096, b'{"payload": ""}'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def registry(data: Path) -> Iterator[str]:
    with docker_registry(data) as port:
        yield f"127.0.0.1:{port}"


def written(folder: Path, bundle: bytes = BUNDLE, envelope: bytes = ENVELOPE) -> tuple[Path, Path]:
    (folder / "b").write_bytes(bundle)
    (folder / "e").write_bytes(envelope)
    return folder / "b", folder / "e"


def pushed(address: str, folder: Path, bundle: bytes = BUNDLE) -> ReleaseAddress:
    """Push a release; return its address by digest."""
    target = parse_address(address)
    return target.pinned(push(target, *written(folder, bundle), "counter", "1.4.0"))


def fetched(address: ReleaseAddress, folder: Path) -> tuple[bytes, bytes]:
    fetch(address, folder / "B", folder / "E")
    return (folder / "B").read_bytes(), (folder / "E").read_bytes()


def stored(data: Path, content: bytes) -> Path:
    """Return where the registry keeps a blob."""
    digest = hashlib.sha256(content).hexdigest()
    return data / "data/docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"


def test_what_was_pushed_comes_back_by_tag_and_by_digest(registry: str, tmp_path: Path) -> None:
    address = parse_address(f"{registry}/team/counter:1.4.0")
    pinned = pushed(str(address), tmp_path)
    assert fetched(address, tmp_path) == fetched(pinned, tmp_path) == (BUNDLE, ENVELOPE)
    assert pushed(str(address), tmp_path) == pinned, "the same release has the same digest"


def test_a_release_is_verified_before_its_files_get_their_names(
    registry: str, signed: Release, tmp_path: Path
) -> None:
    issued = int(time.time())
    bundle = signed(ANNA, issued=issued, expires=issued + DAY)
    address = parse_address(f"{registry}/tiny:2.0.0")
    digest = push(address, bundle, release_path(bundle), "tiny", "2.0.0")
    got = tmp_path / "got" / "tiny.bundle"
    found, release = pull(address, got, ReleaseKeys([ANNA.key], 1))
    assert (found, release.release.version) == (digest, "2.0.0")
    assert got.read_bytes() == bundle.read_bytes()
    assert release_path(got).read_bytes() == release_path(bundle).read_bytes()
    for allowed, says in (
        (ReleaseKeys([EVE.key], 1), f"release {address} is signed by 0 of the 1"),
        (ReleaseKeys([ANNA.key], 1, expires=issued), "expired"),
    ):
        with pytest.raises(CheckError, match=says):
            pull(address, tmp_path / "none" / "x", allowed)
        assert not list((tmp_path / "none").iterdir())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda old: old[:-1] + b"?", r"sha256:\w+ is sha256:\w+; nothing"),
        (lambda old: old[:-1], f"has {len(BUNDLE) - 1} bytes, its manifest says {len(BUNDLE)}"),
        (lambda _: b"", f"has 0 bytes, its manifest says {len(BUNDLE)}"),
        (lambda old: old + b"more", f"has more bytes, its manifest says {len(BUNDLE)}"),
    ],
)
def test_a_blob_that_changed_in_the_store_is_refused(
    registry: str, data: Path, tmp_path: Path, change: Callable[[bytes], bytes], says: str
) -> None:
    pinned = pushed(f"{registry}/counter:damaged", tmp_path)
    blob = stored(data, BUNDLE)
    try:
        blob.write_bytes(change(BUNDLE))
        with pytest.raises(CheckError, match=says):
            fetched(pinned, tmp_path)
    finally:
        blob.write_bytes(BUNDLE)
    assert fetched(pinned, tmp_path)[0] == BUNDLE


def test_another_manifest_under_the_digest_is_refused(registry: str, data: Path, tmp_path: Path) -> None:
    pinned = pushed(f"{registry}/counter:one", tmp_path)
    other = pushed(f"{registry}/counter:two", tmp_path, b"another bundle")
    blobs = data / "data/docker/registry/v2/blobs/sha256"
    one, two = (blobs / str(a.digest)[7:9] / str(a.digest)[7:] / "data" for a in (pinned, other))
    kept = one.read_bytes()
    one.write_bytes(two.read_bytes())
    try:
        for address in (pinned, parse_address(f"{registry}/counter:one")):
            with pytest.raises(ToolchainError):
                fetched(address, tmp_path)
    finally:
        one.write_bytes(kept)
    assert fetched(pinned, tmp_path)[0] == BUNDLE


def test_a_tag_that_was_moved_leads_elsewhere_and_a_digest_does_not(registry: str, tmp_path: Path) -> None:
    moving = parse_address(f"{registry}/counter:stable")
    old = pushed(str(moving), tmp_path)
    new = pushed(str(moving), tmp_path, b"the next bundle")
    assert old != new
    assert fetched(moving, tmp_path)[0] == b"the next bundle" and fetched(old, tmp_path)[0] == BUNDLE


def send(address: ReleaseAddress, manifest: dict[str, object]) -> None:
    with closing(RegistryClient(address)) as client:
        client.send_manifest(json.dumps(manifest).encode())


def test_what_is_no_release_is_not_taken(registry: str, tmp_path: Path) -> None:
    address = parse_address(f"{registry}/counter:odd")
    pushed(str(address), tmp_path)
    with closing(RegistryClient(address)) as client:
        manifest = json.loads(client.manifest())
    image = manifest | {
        "config": manifest["config"] | {"mediaType": "application/vnd.oci.image.config.v1+json"}
    }
    one_layer = manifest | {"layers": manifest["layers"][:1]}
    twice = manifest | {"layers": manifest["layers"][:1] * 2}
    large = manifest | {"layers": [manifest["layers"][0], manifest["layers"][1] | {"size": 2**20}]}
    for wrong, error, says in (
        (image, UsageError, "is not a release: config.mediaType"),
        (one_layer, UsageError, "is not a release: layers"),
        (twice, UsageError, "is not a release: it has no layer of type"),
        (large, CheckError, "its envelope has 1048576 bytes"),
    ):
        send(address, wrong)
        with pytest.raises(error, match=says):
            fetched(address, tmp_path)


def test_what_the_registry_lacks_is_told(registry: str, tmp_path: Path) -> None:
    for name in ("counter:never", "nobody:1", f"counter@sha256:{'0' * 64}"):
        with pytest.raises(ToolchainError, match="unknown") as raised:
            fetched(parse_address(f"{registry}/{name}"), tmp_path)
        assert "release push" in raised.value.hint


def test_nobody_listening_is_told_at_once(tmp_path: Path) -> None:
    begun = time.monotonic()
    for act in (
        lambda: fetched(parse_address("127.0.0.1:1/a:1"), tmp_path),
        lambda: pushed("127.0.0.1:1/a:1", tmp_path),
    ):
        with pytest.raises(ToolchainError, match="refused") as raised:
            act()
        assert "does a registry listen at 127.0.0.1:1?" in raised.value.hint
    assert time.monotonic() - begun < 30, "nothing is repeated"


def test_a_registry_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ToolchainError, match="timed out"):
        fetched(parse_address(f"127.0.0.1:{silent.getsockname()[1]}/a:1"), tmp_path)


def test_plain_http_is_taken_from_loopback_alone(registry: str, tmp_path: Path) -> None:
    elsewhere = registry.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - this machine, and not loopback's name
    with pytest.raises(ToolchainError) as raised:
        pushed(f"{elsewhere}/counter:1", tmp_path)
    assert "taken from this machine alone" in raised.value.hint


def test_the_authorities_of_docker_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test")
    names = ("-addext", "subjectAltName=IP:0.0.0.0", "-keyout", tmp_path / "key", "-out", tmp_path / "crt")
    subprocess.run(["openssl", *request, *names], check=True, capture_output=True, timeout=60)
    monkeypatch.setattr(client, "CERTIFICATES", tmp_path / "certs.d")
    with docker_registry(
        tmp_path / "registry", tls=f"{{certificate: {tmp_path}/crt, key: {tmp_path}/key}}"
    ) as port:
        address = f"0.0.0.0:{port}/counter:1"
        with pytest.raises(ToolchainError, match="certificate verify failed") as raised:
            pushed(address, tmp_path)
        authority = tmp_path / "certs.d" / f"0.0.0.0:{port}" / "ca.crt"
        assert str(authority) in raised.value.hint
        authority.parent.mkdir(parents=True)
        authority.write_bytes((tmp_path / "crt").read_bytes())
        assert fetched(pushed(address, tmp_path), tmp_path)[0] == BUNDLE


def test_credentials_are_those_of_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users").write_bytes(b"anna:" + bcrypt.hashpw(b"secret", bcrypt.gensalt(4)) + b"\n")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with docker_registry(
        tmp_path / "registry", auth=f"{{htpasswd: {{realm: test, path: {tmp_path}/users}}}}"
    ) as port:
        host = f"127.0.0.1:{port}"

        def log_in(password: bytes) -> None:
            entry = {"auth": b64encode(b"anna:" + password).decode()}
            (tmp_path / "config.json").write_text(json.dumps({"auths": {host: entry}}))

        for password in (None, b"wrong"):
            if password:
                log_in(password)
            for act in (pushed, lambda name, folder: fetched(parse_address(name), folder)):
                with pytest.raises(ToolchainError) as raised:
                    act(f"{host}/counter:1", tmp_path)
                assert raised.value.hint == f"log in: `docker login {host}`"
                assert "wrong" not in str(raised.value)
        log_in(b"secret")
        assert fetched(pushed(f"{host}/counter:1", tmp_path), tmp_path) == (BUNDLE, ENVELOPE)


def test_a_large_file_is_sent_in_pieces_and_again_after_a_question_for_credentials(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(3 * 2**20 + 1))
    content = FileBody(file)
    assert [len(piece) for piece in content] == [2**20, 2**20, 2**20, 1]
    assert len(content) == sum(map(len, content)) == describe_file(file, "x").size
    assert EMPTY == b"{}"
