"""The container engine: what it says when there is none, and whose containers it leaves alone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import docker
import docker.errors
import pytest
from docker.utils import kwargs_from_env

from tests.images.docker_proxy import DockerProxy
from tests.unique import UNIQUE
from tests.waiting import until
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images.engine import IMAGE_LABEL, LABEL, ContainerRequest, Engine, answers, connect
from toolchain.images.registry.archive import write_archive

TAG = f"edge-toolchain/test:{UNIQUE}"


@pytest.fixture
def short() -> Iterator[Path]:
    """Yield a folder with a short name: those of Unix sockets are limited to 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="et-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def image(engine: Engine, tmp_path: Path) -> Iterator[str]:
    """Yield the tag of an image in which nothing can run."""
    tarfile.open(tmp_path / "layer", "w").close()
    write_archive(tmp_path / "image", tmp_path / "layer", TAG, "amd64", ["/nothing"], {IMAGE_LABEL: "test"})
    engine.load_image(tmp_path / "image")
    yield TAG
    engine.remove_image(TAG)
    assert not engine.has_image(TAG)


def request_for(image: str, name: str) -> ContainerRequest:
    return ContainerRequest(image, name, "h", "test", {"test": name}, {}, {}, (), 16, 16)


@pytest.mark.parametrize(
    ("address", "kind", "says"),
    [
        ("unix:///nowhere/docker.sock", MissingError, "no Docker daemon answers at unix:///nowhere"),
        ("tcp://127.0.0.1:1", MissingError, "no Docker daemon answers at tcp://127.0.0.1:1"),
        ("carrier-pigeon://x", UsageError, "DOCKER_HOST=carrier-pigeon://x"),
    ],
)
def test_missing_daemon_is_reported(
    monkeypatch: pytest.MonkeyPatch, address: str, kind: type[ToolchainError], says: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(kind, match=says) as raised, connect():
        pass
    assert raised.value.hint
    assert not answers()


@pytest.mark.slow
def test_daemon_without_permission_is_reported(short: Path) -> None:
    code = (
        "import os, sys, docker.api.client, requests.exceptions\n"
        "from toolchain.errors import MissingError\n"
        "from toolchain.images.engine import connect\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n    with connect(): pass\n"
        "except MissingError as error: print(error); sys.exit(error.exit_code)\n"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short / "sock"))
        listening.listen()
        (short / "sock").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "DOCKER_HOST": f"unix://{short}/sock"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 3, done.stderr
    assert "permission denied" in done.stdout and "usermod -aG docker" in done.stdout


def test_daemon_that_stops_answering_is_reported(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = DockerProxy(short / "sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{short}/sock")
    try:
        with connect() as engine:
            assert engine.is_local
            engine.containers("test")
            proxy.close()
            with pytest.raises(
                ToolchainError, match="stopped answering: cannot list the containers"
            ) as raised:
                engine.containers("test")
    finally:
        proxy.close()
    assert raised.value.exit_code == 1 and "docker info" in raised.value.hint


class Freezer:
    """Docker's API as it answers on a busy host: it cannot freeze a container the first times."""

    def __init__(self, failures: int, why: str) -> None:
        self.left, self.why = failures, why

    def inspect_container(self, _container: str) -> dict[str, object]:
        return {"Config": {"Labels": {LABEL: "test"}}}

    def pause(self, _container: str) -> None:
        if self.left:
            self.left -= 1
            raise docker.errors.APIError(self.why, explanation=self.why)


def test_pause_is_retried_if_a_container_cannot_be_frozen() -> None:
    api = Freezer(2, "OCI runtime pause failed: unable to freeze: unknown")
    Engine(api, "here").pause("ours")
    assert api.left == 0


def test_failing_pause_is_an_error() -> None:
    api = Freezer(9, "container is not running")
    with pytest.raises(ToolchainError, match="cannot pause the container ours: container is not running"):
        Engine(api, "here").pause("ours")
    assert api.left == 8


@pytest.mark.slow
def test_foreign_containers_are_left_alone(engine: Engine, image: str) -> None:
    api = docker.APIClient(**kwargs_from_env(), version="auto")
    foreign = api.create_container(image, name=f"edge-toolchain-look-alike-{UNIQUE}")["Id"]
    try:
        for act in (engine.start, engine.kill, engine.pause, engine.remove):
            with pytest.raises(ToolchainError, match="left alone"):
                act(foreign)
        assert engine.state(foreign) == "created"
        assert foreign not in [c.id for c in engine.containers("test")]
    finally:
        api.remove_container(foreign)
        api.close()


@pytest.mark.slow
def test_our_container_is_limited_listed_and_removed(engine: Engine, image: str) -> None:
    container = engine.create(request_for(image, f"edge-toolchain-test-{UNIQUE}"))
    try:
        listed = next(c for c in engine.containers("test") if c.id == container)
        assert listed.state == "created" and listed.labels["test"] == f"edge-toolchain-test-{UNIQUE}"
        api = docker.APIClient(**kwargs_from_env(), version="auto")
        limits = api.inspect_container(container)["HostConfig"]
        api.close()
        assert limits["CapDrop"] == ["ALL"] and not limits["Privileged"]
        assert limits["Memory"] == limits["MemorySwap"] == 16 << 20 and limits["PidsLimit"] == 16
        with pytest.raises(ToolchainError, match=f"edge-toolchain-test-{UNIQUE}"):
            engine.create(request_for(image, f"edge-toolchain-test-{UNIQUE}"))
        engine.start(container)
        until(lambda: engine.state(container) == "exited")
        assert "/nothing" in engine.log(container)
    finally:
        engine.remove(container)
    engine.remove(container)
    assert engine.state(container) is None
    with pytest.raises(ToolchainError, match="is gone"):
        engine.start(container)


def test_refuses_a_file_that_is_not_an_image(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"not a tar")
    with pytest.raises(ToolchainError, match="image"):
        engine.load_image(tmp_path / "image")
