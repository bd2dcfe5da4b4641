"""`toolchain image test | shell | push | pull` as users type them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Toolchain
from tests.images.docker_registry import docker_registry
from toolchain.images.catalogue import image_named
from toolchain.images.engine import connect
from toolchain.images.system import ensure_system

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
