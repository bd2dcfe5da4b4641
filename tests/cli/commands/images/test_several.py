"""`toolchain image test | push | pull`: one thing done with several images."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.images.docker_registry import docker_registry
from toolchain.images.catalogue import image_named
from toolchain.images.debian.system import ensure_system
from toolchain.images.engine import connect
from toolchain.images.making import smoke

BOARD = "board-amd64"  # the smallest that runs here without an emulator


@pytest.fixture
def board() -> str:
    with connect() as engine:
        return ensure_system(engine, image_named(BOARD), print)


@pytest.mark.slow
@pytest.mark.usefixtures("board")
def test_failure_of_one_image_does_not_stop_others(invoke: Toolchain, tmp_path: Path) -> None:
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


def test_a_test_that_fails_keeps_its_result(invoke: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "smoke_test", lambda *_: smoke.Tested(BOARD, False, 5, 1.25))
    ran = invoke("image", "test", BOARD, "--json")
    assert ran.code == 1 and ran.says(f"error: {BOARD}: its test failed with exit code 5 in 1 s")
    assert ran.document == [
        {
            "name": BOARD,
            "passed": False,
            "exit_code": 5,
            "seconds": 1.2,
            "error": "its test failed with exit code 5 in 1 s",
            "hint": "",
        }
    ]
    told = invoke("image", "test", BOARD)
    assert told.code == 1 and told.out.splitlines()[-1].split() == [BOARD, "failed"]


@pytest.mark.slow
@pytest.mark.usefixtures("board")
def test_an_image_is_tested(invoke: Toolchain) -> None:
    ran = invoke("image", "test", BOARD, "--json")
    assert ran.code == 0
    (tested,) = ran.document
    assert tested["name"] == BOARD and tested["passed"] and tested["exit_code"] == 0
    assert ran.says("ok: uname says x86_64", "ok: sshd says SSH-2.0")
