"""Where a step runs: what decides it, and what is said about it."""

from __future__ import annotations

import platform
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.images.small_image import small_image
from tests.unique import UNIQUE
from toolchain.configuration.settings import configuration
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.images import listing
from toolchain.images.catalogue import Image
from toolchain.images.contents import FOUNDATION_LABEL, LOCK_LABEL, sources_digest
from toolchain.images.engine import SOURCES_LABEL, Engine, answers
from toolchain.images.running import placement as module
from toolchain.images.running.environment import IMAGE_VARIABLE
from toolchain.images.running.placement import choose

NAME = f"test-choose-{UNIQUE}"
IMAGE = Image(name=NAME, description="like base, under another name", folder="base")


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one more image in the table."""
    monkeypatch.setattr(module, "image_named", {NAME: IMAGE}.__getitem__)
    monkeypatch.setattr(listing, "foundation_name", lambda _: f"{NAME}-stands-on-nothing")
    monkeypatch.delenv("DOCKER_HOST", raising=False)


@pytest.fixture
def labelled_image(engine: Engine, tmp_path: Path) -> Callable[..., AbstractContextManager[str]]:
    return partial(small_image, engine, tmp_path, IMAGE.tag)


@pytest.fixture
def current() -> dict[str, str]:
    return {SOURCES_LABEL: sources_digest(IMAGE), LOCK_LABEL: "1" * 64}


@pytest.fixture
def short() -> Iterator[Path]:
    """Yield a folder with a short name: those of Unix sockets are limited to 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="et-") as folder:
        yield Path(folder)


def test_engine_host_contacts_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:1")
    assert choose("host", "no such image") == module.Placement(None)


@pytest.mark.parametrize("setting", ["auto", "docker"])
def test_commands_in_an_image_stay_there(
    setting: module.EngineSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, "sha256:1")
    assert choose(setting, NAME) == module.Placement(None)


def test_missing_image() -> None:
    choice = choose("auto", NAME)
    assert choice.image is None
    assert choice.reason.startswith(f"engine: host, since there is no image {NAME}")
    assert f"toolchain image build {NAME}" in choice.reason
    with pytest.raises(MissingError, match=f"there is no image {NAME}") as raised:
        choose("docker", NAME)
    assert f"toolchain image build {NAME}" in raised.value.hint


@pytest.mark.slow
def test_current_image_is_used(
    labelled_image: Callable[..., AbstractContextManager[str]], current: dict[str, str], engine: Engine
) -> None:
    with labelled_image(current):
        choice = choose("auto", NAME)
        assert choice.image is not None and choice.image.lock == "1" * 64
        assert choice.image.id == engine.api.inspect_image(IMAGE.tag)["Id"]
        assert choice.reason == f"engine: docker, image {NAME}"
        assert choose("docker", NAME) == module.Placement(choice.image)


@pytest.mark.slow
def test_stale_image(
    labelled_image: Callable[..., AbstractContextManager[str]], current: dict[str, str]
) -> None:
    with labelled_image({**current, SOURCES_LABEL: "older"}):
        choice = choose("auto", NAME)
        assert choice.image is None and choice.reason.startswith("engine: host, since")
        assert "out of date" in choice.reason and f"toolchain image build {NAME}" in choice.reason
        choice = choose("docker", NAME)
        assert choice.image is not None and choice.image.stale
        assert choice.reason.startswith("warning: ") and "out of date" in choice.reason


@pytest.mark.slow
def test_image_on_a_replaced_base_is_stale(
    labelled_image: Callable[..., AbstractContextManager[str]],
    current: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "foundation_name", lambda _: IMAGE.tag)  # one that is there
    with labelled_image({**current, FOUNDATION_LABEL: "sha256:older"}):
        choice = choose("auto", NAME)
        assert choice.image is None and "out of date" in choice.reason


@pytest.mark.slow
def test_image_for_another_architecture(
    labelled_image: Callable[..., AbstractContextManager[str]], current: dict[str, str]
) -> None:
    with labelled_image(current, architecture="s390x"):
        with pytest.raises(MissingError, match=f"is for s390x, and this machine is {platform.machine()}"):
            choose("docker", NAME)
        choice = choose("auto", NAME)
        assert choice.image is None and "exec format error" in choice.reason


@pytest.mark.slow
def test_no_advice_to_build_images_on_arm64(
    labelled_image: Callable[..., AbstractContextManager[str]],
    current: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MissingError, match="for arm64: images are made on amd64") as raised:
        choose("docker", NAME)
    assert raised.value.hint == "--engine host needs no image"
    with labelled_image(current):
        with pytest.raises(MissingError, match="is for amd64, and this machine is aarch64") as raised:
            choose("docker", NAME)
        assert raised.value.hint == "--engine host needs no image"


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:2375", "ssh://somebody@board"])
def test_remote_daemon_is_refused_without_a_connection(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    monkeypatch.setattr(socket, "socket", None)  # nothing can be connected to
    with pytest.raises(
        UsageError, match="a bind mount of this machine's folders cannot work there"
    ) as raised:
        choose("docker", NAME)
    assert address in raised.value.message and "DOCKER_HOST" in raised.value.hint
    choice = choose("auto", NAME)
    assert choice.image is None and address in choice.reason


def test_invalid_address_is_not_called_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "garbage")
    with pytest.raises(UsageError, match=r"DOCKER_HOST=garbage: .*port is required"):
        choose("docker", NAME)


@pytest.mark.parametrize("address", ["tcp://localhost:abc", "tcp://localhost:99999", "tcp://[::1"])
def test_mistyped_address_is_reported(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(UsageError, match=re.escape(f"DOCKER_HOST={address}: ")) as raised:
        choose("docker", NAME)
    assert raised.value.hint == "such as unix:///var/run/docker.sock"
    choice = choose("auto", NAME)
    assert choice.image is None and f"since DOCKER_HOST={address}: " in choice.reason
    assert not answers()


@pytest.mark.parametrize("address", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1"])
def test_no_daemon(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(MissingError, match=f"no Docker daemon answers at {address}"):
        choose("docker", NAME)
    choice = choose("auto", NAME)
    assert choice.image is None and f"no Docker daemon answers at {address}" in choice.reason


def test_hanging_daemon_delays_no_command(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PROBE_S", 0.2)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{short}/sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(short / "sock"))
        listening.listen()
        begun = time.monotonic()
        choice = choose("auto", NAME)
    assert choice.image is None and "no Docker daemon answers" in choice.reason
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("kind", ["rootless", "userns"])
def test_refuses_daemons_that_map_users(kind: str) -> None:
    with pytest.raises(ToolchainError, match=rf"maps users \({kind}\)"):
        module._check_users({"SecurityOptions": ["name=seccomp,profile=default", f"name={kind}"]})
    module._check_users({"SecurityOptions": ["name=seccomp,profile=default"]})
    module._check_users({"SecurityOptions": None})


def test_checkouts_with_different_image_tags_keep_their_images(
    engine: Engine, tmp_path: Path, current: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tagged(tag: str) -> None:
        monkeypatch.setenv("TOOLCHAIN_IMAGE_TAG", tag)
        configuration.cache_clear()

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with small_image(engine, tmp_path / "one", IMAGE.tag, {SOURCES_LABEL: "of other sources"}):
        tagged("second-checkout")
        assert listing.state_of(engine, IMAGE).word == "absent"
        with small_image(engine, tmp_path / "two", IMAGE.tag, current):
            engine.remove_superseded(NAME, IMAGE.tag)
            assert listing.state_of(engine, IMAGE).word == "current"
            tagged("latest")
            assert listing.state_of(engine, IMAGE).word == "out of date"
