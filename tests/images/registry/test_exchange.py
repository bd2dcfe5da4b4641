"""Images that go to a registry and come back, and registries that have none or let nobody in."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tarfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import docker.errors
import pytest

from tests.images.docker_registry import docker_registry
from tests.unique import UNIQUE
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.catalogue import Image
from toolchain.images.engine import IMAGE_LABEL, SOURCES_LABEL, Engine, connect
from toolchain.images.registry import exchange as transfer
from toolchain.images.registry.archive import write_archive
from toolchain.images.registry.exchange import checked_registry, pull, push

pytestmark = pytest.mark.slow

IMAGE = Image(name=f"test-{UNIQUE}", description="a test", folder="none")
SYSTEM = IMAGE.model_copy(update={"folder": "", "system": "arm64"})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as port:
        yield f"127.0.0.1:{port}"


@pytest.fixture
def load(engine: Engine, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Yield a function that puts an image of a few bytes into the engine; it returns the ID."""

    def put(content: str = "", architecture: str = "amd64", tag: str = IMAGE.tag, **labels: str) -> str:
        tarfile.open(tmp_path / "layer", "w").close()
        labels = {IMAGE_LABEL: IMAGE.name, SOURCES_LABEL: content, **labels}
        write_archive(tmp_path / "image", tmp_path / "layer", tag, architecture, ["/none"], labels)
        engine.load_image(tmp_path / "image")
        return str(engine.api.inspect_image(tag)["Id"])

    yield put
    for image in engine.api.images(filters={"label": f"{IMAGE_LABEL}={IMAGE.name}"}):
        engine.api.remove_image(image["Id"], force=True)


def names(engine: Engine) -> set[str]:
    images = engine.api.images(filters={"label": f"{IMAGE_LABEL}={IMAGE.name}"})
    return {name for image in images for name in image["RepoTags"] or ()}


def test_pushed_image_is_pulled_with_its_labels(
    engine: Engine, load: Callable[..., str], registry: str
) -> None:
    first = load("one")
    sent = push(engine, IMAGE, f"{registry}/team", print)
    assert sent.id == first
    assert sent.reference == f"{registry}/team/edge-toolchain/{IMAGE.name}@{sent.digest}"
    assert sent.digest.startswith("sha256:") and len(sent.digest) == 71
    assert names(engine) == {IMAGE.tag}, "the registry's name is not left behind"

    second = load("two")
    assert second != first
    pulled = pull(engine, IMAGE, f"{registry}/team", print)
    assert pulled == sent
    assert (engine.image_labels(IMAGE.tag) or {})[SOURCES_LABEL] == "one"
    assert names(engine) == {IMAGE.tag}
    with pytest.raises(docker.errors.ImageNotFound):  # what was here before is gone
        engine.api.inspect_image(second)


@pytest.mark.parametrize(
    ("labels", "architecture", "says"),
    [
        ({IMAGE_LABEL: "other"}, "amd64", r"is the image 'other', not test-\w+: not taken"),
        ({IMAGE_LABEL: ""}, "amd64", r"is the image '', not"),
        ({}, "arm64", r"is for arm64 machines, not for amd64: not taken"),
    ],
)
def test_refuses_to_pull_another_image(
    engine: Engine,
    load: Callable[..., str],
    registry: str,
    labels: dict[str, str],
    architecture: str,
    says: str,
) -> None:
    remote = f"{registry}/other/edge-toolchain/{IMAGE.name}:latest"
    wrong = load("", architecture, remote, **labels)
    for _ in engine.api.push(remote, stream=True):
        pass
    engine.api.remove_image(remote)
    image_id = load("mine")
    with pytest.raises(ToolchainError, match=says):
        pull(engine, IMAGE, f"{registry}/other", print)
    assert engine.api.inspect_image(IMAGE.tag)["Id"] == image_id
    with pytest.raises(docker.errors.ImageNotFound):
        engine.api.inspect_image(wrong)


def test_refuses_to_pull_a_foreign_image(engine: Engine, registry: str, tmp_path: Path) -> None:
    remote = f"{registry}/foreign/edge-toolchain/{IMAGE.name}:latest"
    tarfile.open(tmp_path / "layer", "w").close()
    write_archive(tmp_path / "image", tmp_path / "layer", remote, "amd64", ["/theirs"], {})
    engine.load_image(tmp_path / "image")
    try:
        for _ in engine.api.push(remote, stream=True):
            pass
        with pytest.raises(ToolchainError, match="none of this toolchain's images"):
            pull(engine, IMAGE, f"{registry}/foreign", print)
        assert engine.has_image(remote), "the user's"
        assert not engine.has_image(IMAGE.tag)
    finally:
        engine.api.remove_image(remote)


def test_pulls_a_system_image_of_another_architecture(
    engine: Engine, load: Callable[..., str], registry: str
) -> None:
    image_id = load("board", "arm64")
    push(engine, SYSTEM, registry, print)
    assert pull(engine, SYSTEM, registry, print).id == image_id


def test_image_missing_from_the_registry_is_reported(engine: Engine, registry: str) -> None:
    with pytest.raises(ToolchainError, match=rf"cannot pull {IMAGE.name}: .*manifest unknown") as raised:
        pull(engine, IMAGE, f"{registry}/nothing", print)
    assert raised.value.hint.endswith(f"toolchain image push {IMAGE.name} --registry {registry}/nothing`")


def test_refuses_to_push_a_missing_image(engine: Engine, registry: str) -> None:
    with pytest.raises(MissingError, match=rf"{IMAGE.name} is not here \(toolchain image build"):
        push(engine, IMAGE, registry, print)


def test_refuses_to_push_a_foreign_image_with_our_tag(
    engine: Engine, load: Callable[..., str], registry: str
) -> None:
    load("", **{IMAGE_LABEL: "other"})
    try:
        with pytest.raises(ToolchainError, match=r"is not the image .* of this toolchain: not pushed"):
            push(engine, IMAGE, registry, print)
    finally:
        engine.api.remove_image(IMAGE.tag)


@pytest.mark.parametrize("act", [push, pull])
def test_unreachable_registry_is_reported(
    engine: Engine, load: Callable[..., str], act: Callable[..., object]
) -> None:
    load()
    with pytest.raises(ToolchainError, match="connection refused") as raised:
        act(engine, IMAGE, "127.0.0.1:1", print)
    assert "127.0.0.1:1" in raised.value.hint and names(engine) == {IMAGE.tag}


@pytest.mark.parametrize("act", [push, pull])
def test_plain_http_works_on_loopback_only(
    engine: Engine, load: Callable[..., str], act: Callable[..., object], registry: str
) -> None:
    load()
    # This machine too, but none of 127.0.0.0/8, from which alone Docker takes http unasked.
    elsewhere = registry.replace("127.0.0.1", "0.0.0.0")  # noqa: S104 - an address to ask
    with pytest.raises(ToolchainError, match="HTTP response to HTTPS client") as raised:
        act(engine, IMAGE, elsewhere, print)
    assert "insecure-registries" in raised.value.hint


def test_untrusted_certificate_is_reported(engine: Engine, load: Callable[..., str], tmp_path: Path) -> None:
    load()
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test")
    names = ("-addext", "subjectAltName=IP:0.0.0.0", "-keyout", tmp_path / "key", "-out", tmp_path / "crt")
    subprocess.run(["openssl", *request, *names], check=True, capture_output=True, timeout=60)
    with docker_registry(
        tmp_path / "registry", tls=f"{{certificate: {tmp_path}/crt, key: {tmp_path}/key}}"
    ) as port:
        with pytest.raises(ToolchainError, match="x509") as raised:
            push(engine, IMAGE, f"0.0.0.0:{port}", print)
        assert f"/etc/docker/certs.d/0.0.0.0:{port}/ca.crt" in raised.value.hint
        push(engine, IMAGE, f"127.0.0.1:{port}", print)


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a registry that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("act", [push, pull])
def test_silent_registry_times_out(
    engine: Engine,
    load: Callable[..., str],
    act: Callable[..., object],
    silent: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load()
    monkeypatch.setattr(transfer, "_SILENCE_SECONDS", 0.5)
    with pytest.raises(ToolchainError, match=r"Docker has reported nothing for 0\.5 s"):
        act(engine, IMAGE, silent, print)
    assert names(engine) == {IMAGE.tag}


@pytest.mark.slow
@pytest.mark.parametrize("act", ["push", "pull"])
def test_ctrl_c_during_a_pull_leaves_nothing(
    engine: Engine, load: Callable[..., str], act: str, silent: str
) -> None:
    load()
    code = (
        "from toolchain.images.catalogue import Image\n"
        "from toolchain.images.engine import connect\n"
        f"from toolchain.images.registry.exchange import {act}\n"
        f"image = Image(name={IMAGE.name!r}, description='x', folder='none')\n"
        f"with connect() as engine: print(flush=True); {act}(engine, image, {silent!r}, print)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None and child.stdout.readline()
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
    assert child.returncode == -signal.SIGINT and names(engine) == {IMAGE.tag}


def test_uses_dockers_credentials(
    load: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    (tmp_path / "users").write_bytes(b"anna:" + bcrypt.hashpw(b"secret", bcrypt.gensalt(4)) + b"\n")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr("docker.utils.config.home_dir", lambda: str(tmp_path / "none"))
    with docker_registry(
        tmp_path / "registry", auth=f"{{htpasswd: {{realm: test, path: {tmp_path}/users}}}}"
    ) as port:
        host = f"127.0.0.1:{port}"
        for act in (push, pull):
            with connect() as engine, pytest.raises(ToolchainError, match="no basic auth") as raised:
                act(engine, IMAGE, host, print)
            assert raised.value.hint == f"log in: `docker login {host}`"

        def log_in(password: bytes) -> None:
            entry = {"auth": b64encode(b"anna:" + password).decode()}
            (tmp_path / "config.json").write_text(json.dumps({"auths": {host: entry}}))

        log_in(b"wrong")
        with connect() as engine, pytest.raises(ToolchainError, match="unauthorized") as raised:
            push(engine, IMAGE, host, print)
        assert "wrong" not in str(raised.value)
        log_in(b"secret")
        with connect() as engine:
            assert push(engine, IMAGE, host, print) == pull(engine, IMAGE, host, print)


def test_broken_credential_helper_is_reported(
    load: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str
) -> None:
    load()
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "nowhere"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with connect() as engine, pytest.raises(ToolchainError, match="docker-credential-nowhere") as raised:
        push(engine, IMAGE, registry, print)
    assert "credsStore" in raised.value.hint


@pytest.mark.parametrize(
    "good",
    [
        "localhost",
        "localhost:5000",
        "registry.example.org/team/edge",
        "10.0.0.1:5000",
        "box:5000/a-b_c",
        "a.b/c/",
    ],
)
def test_accepts_hosts_with_a_prefix(good: str) -> None:
    assert checked_registry(good) == good.rstrip("/")


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "https://a.b",
        "team",
        "team/edge",
        "a.b/Team",
        "a.b:port",
        "a.b//c",
        "a.b/c:tag",
        "a.b@sha256:0",
        "-a b",
    ],
)
def test_refuses_text_that_is_not_a_registry(bad: str) -> None:
    with pytest.raises(UsageError, match="HOST"):
        checked_registry(bad)


def test_existing_registry_tags_are_restored(engine: Engine, load: Callable[..., str], registry: str) -> None:
    image_id = load()
    remote = f"{registry}/edge-toolchain/{IMAGE.name}"
    engine.api.tag(image_id, remote, "latest")
    push(engine, IMAGE, registry, print)
    pull(engine, IMAGE, registry, print)
    assert names(engine) == {IMAGE.tag, f"{remote}:latest"}
