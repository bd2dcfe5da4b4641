"""`toolchain image`: what no subcommand can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain

BOARD = "board-amd64"
PUSH, PULL = (("push", "--registry", "127.0.0.1:1"), ("pull", "--registry", "127.0.0.1:1"))


@pytest.mark.parametrize("command", [("list",), ("build",), ("bootstrap",)])
def test_reports_missing_docker(
    invoke: Toolchain, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    ran = invoke("image", *command)
    assert ran.code == 3 and ran.says("no Docker daemon answers", "no.sock")


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (("build", "aarch46"), {}, ("no image 'aarch46'", "aarch64")),
        (("build", "base", "--build-arg", "NOVALUE"), {}, ("'NOVALUE' is not KEY=VALUE",)),
        (("build", "base", "--build-arg", "A=1"), {}, ("--build-arg A: none of base takes it",)),
        *(
            (arguments, {"TOOLCHAIN_DEBIAN_IMAGE": "debian:bookworm"}, ("DEBIAN_IMAGE", "debian:bookworm"))
            for arguments in (("list",), ("test",), ("build", "--dry-run"), ("bootstrap",), PUSH, PULL)
        ),
        (
            ("build", "base", "--no-cache"),
            {"TOOLCHAIN_TLS_AUTHORITIES": "/no/such"},
            ("tls_authorities = /no/such holds no certificates",),
        ),
    ],
)
def test_refuses_unusable_arguments(
    invoke: Toolchain,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ran = invoke("image", *arguments)
    assert ran.code == 2 and ran.says(*words)


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
def test_refuses_impossible_options(
    invoke: Toolchain, arguments: tuple[str, ...], code: int, says: str
) -> None:
    ran = invoke("image", *arguments)
    assert ran.code == code and ran.says(says, "hint:")
