"""`toolchain image test | shell | push | pull` as users type them."""

from __future__ import annotations

import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from tests.cli.conftest import Toolchain
from tests.images.docker_registry import docker_registry
from toolchain.configuration.settings import configuration
from toolchain.images.catalogue import image_named
from toolchain.images.debian.bootstrap import ensure_debian
from toolchain.images.debian.system import ensure_system
from toolchain.images.engine import connect

BOARD = "board-amd64"  # the smallest that runs here without an emulator


@pytest.fixture
def board() -> str:
    with connect() as engine:
        return ensure_system(engine, image_named(BOARD), print)


@pytest.mark.slow
@pytest.mark.usefixtures("board")
def test_what_fails_for_one_image_does_not_keep_it_from_the_next(invoke: Toolchain, tmp_path: Path) -> None:
    with docker_registry(tmp_path / "registry") as port:
        where = f"127.0.0.1:{port}/team"
        sent = invoke("image", "push", BOARD, "--registry", where, "--json")
        assert sent.code == 0
        ran = invoke("image", "pull", "cuda", BOARD, "--registry", where, "--json")
    assert ran.code == 1 and ran.says("cannot pull cuda", "manifest unknown", "image push cuda --registry")
    failed, taken = ran.document
    assert failed["name"] == "cuda" and set(failed) == {"name", "error", "hint"}
    assert [taken] == sent.document
    assert taken["reference"] == f"{where}/edge-toolchain/{BOARD}@{taken['digest']}"


@pytest.mark.usefixtures("board")
def test_an_image_is_tested(invoke: Toolchain) -> None:
    ran = invoke("image", "test", BOARD, "--json")
    assert ran.code == 0
    (tested,) = ran.document
    assert tested["name"] == BOARD and tested["passed"] and tested["exit_code"] == 0
    assert ran.says("ok: uname says x86_64", "ok: sshd says SSH-2.0")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("push", "base", "--registry", "https://a.b"), 2, "not HOST[:PORT][/PREFIX]"),
        (("pull", "--registry", "team"), 2, "not HOST[:PORT][/PREFIX]"),
        (("pull", "bse", "--registry", "a.b"), 2, "no image 'bse'"),
        (("test", "bse"), 2, "no image 'bse'"),
        (("shell", "bse"), 2, "no image 'bse'"),
        (("shell", BOARD), 2, "toolchain board emulate start"),
        (("shell", "base"), 3, "a shell needs a terminal"),
    ],
)
def test_what_cannot_be_is_told(invoke: Toolchain, arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = invoke("image", *arguments)
    assert ran.code == code and ran.says(says, "hint:")


def test_make_builds_all_images_or_one() -> None:
    root = Path(__file__).parents[2]
    for goal, line in (
        ("images", ".venv/bin/toolchain image build"),
        ("image-aarch64", ".venv/bin/toolchain image build aarch64"),
    ):
        done = subprocess.run(
            ["make", "-n", goal, "DEPS=skip"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == line
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert {"images", "image-%"} <= {line.split()[0] for line in shown.stdout.splitlines()}


@pytest.mark.slow
def test_the_debian_of_images_comes_from_a_registry_by_its_digest(
    invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docker_registry(tmp_path / "registry") as port, connect() as engine:
        made = ensure_debian(engine, print)
        repository = f"127.0.0.1:{port}/debian"
        engine.api.tag(made, repository, "latest")
        events = list(engine.api.push(repository, stream=True, decode=True))
        digest = next(event["aux"]["Digest"] for event in events if "aux" in event)
        engine.api.remove_image(f"{repository}:latest")
        pinned = f"{repository}@{digest}"

        monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", pinned)
        configuration.cache_clear()
        try:
            ran = invoke("image", "bootstrap", "--json")
            assert (ran.code, ran.document) == (0, {"tag": pinned}), ran.err
            assert engine.api.inspect_image(pinned)["Id"] == engine.api.inspect_image(made)["Id"]
            built = engine.api.build(fileobj=BytesIO(f"FROM {pinned}\n".encode()), decode=True, rm=True)
            assert not [line for line in built if "error" in line]
        finally:
            engine.api.remove_image(pinned)

        monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", f"{repository}@sha256:{'0' * 64}")
        configuration.cache_clear()
        ran = invoke("image", "bootstrap")
        assert ran.code == 1 and ran.says("manifest unknown", "hint:")
    configuration.cache_clear()
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", f"{repository}:latest")
    assert invoke("image", "bootstrap").code == 2, "without a digest it is not pinned"
