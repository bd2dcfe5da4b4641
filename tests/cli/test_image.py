"""`toolchain image build | list | bootstrap` as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Toolchain
from toolchain.images.catalogue import catalogue


def test_list_has_every_image_of_the_table(toolchain: Toolchain, invoke: Toolchain) -> None:
    ran = toolchain("image", "list", "--json")
    assert ran.code == 0
    assert [row["name"] for row in ran.document] == list(catalogue())
    for row in ran.document:
        assert row["tag"] == catalogue()[row["name"]].tag
        assert (row["size_mib"] is None) == (row["id"] is None) == (row["state"] == "absent")
        assert row["stale"] == (row["state"] != "current")
    assert invoke("image", "list").out.splitlines()[0].split() == ["NAME", "TAG", "SIZE", "AGE", "STATE"]


def test_a_dry_run_makes_nothing_and_names_foundations(invoke: Toolchain) -> None:
    ran = invoke("image", "build", "armhf", "--no-cache", "--dry-run", "--json")
    assert ran.code == 0
    assert [row["name"] for row in ran.document] == ["base", "armhf"]
    assert ran.document[1]["make"] is True


@pytest.mark.parametrize("command", [("list",), ("build",), ("bootstrap",)])
def test_without_docker(
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
        (
            ("list",),
            {"TOOLCHAIN_DEBIAN_IMAGE": "debian:bookworm"},
            ("TOOLCHAIN_DEBIAN_IMAGE", "debian:bookworm"),
        ),
        (
            ("build", "base", "--no-cache"),
            {"TOOLCHAIN_TLS_AUTHORITIES": "/no/such"},
            ("tls_authorities = /no/such holds no certificates",),
        ),
    ],
)
def test_what_cannot_be_used(
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
