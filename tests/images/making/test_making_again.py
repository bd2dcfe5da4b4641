"""Images that are made again: what is edited meanwhile, and what the image before was made with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker.errors
import pytest

from toolchain.configuration.settings import cache_dir
from toolchain.errors import UsageError
from toolchain.images.catalogue import image_named
from toolchain.images.contents import FOUNDATION_LABEL, foundation_name, sources_digest, write_context
from toolchain.images.engine import ARGUMENTS_LABEL, SOURCES_LABEL, Engine
from toolchain.images.making import build
from toolchain.images.making.build import to_build

ARCHIVE, DIGEST = "NDK_ARCHIVE", "NDK_SHA256"


class Daemon:
    """Answers as Docker's SDK does; its images are labels and nothing else, and no step of a build runs."""

    def __init__(self) -> None:
        self.labels: dict[str, Mapping[str, str]] = {}

    def add(self, name: str, **labels: str) -> None:
        image = image_named(name)
        current = {SOURCES_LABEL: sources_digest(image), FOUNDATION_LABEL: foundation_name(image)}
        self.labels[image.tag] = {**current, **labels}

    def version(self) -> dict[str, str]:
        return {"Arch": "amd64"}

    def images(self, *_: object, **__: object) -> list[object]:
        return []

    def inspect_image(self, tag: str) -> dict[str, Any]:
        if tag not in self.labels:
            raise docker.errors.ImageNotFound(tag)
        return {"Id": tag, "Size": 0, "RepoDigests": [], "Config": {"Labels": self.labels[tag]}}

    def build(self, *, tag: str, labels: Mapping[str, str], **_: object) -> list[object]:
        self.labels[tag] = labels
        return []


@pytest.fixture
def daemon() -> Daemon:
    fake = Daemon()
    fake.add("base")
    return fake


@pytest.fixture
def without_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Need neither Debian's packages nor wheels."""
    monkeypatch.setattr(build, "ensure_debian", lambda *_: "debian")
    monkeypatch.setattr(build, "ensure_wheels", lambda *_: None)
    (cache_dir() / build.FOLDER).mkdir(parents=True, exist_ok=True)


def labels(daemon: Daemon, arguments: Mapping[str, str]) -> Mapping[str, str]:
    """Make the image `android`; return its labels."""
    image = image_named("android")
    build._build(Engine(daemon, "unix:///none"), image, arguments, False, lambda _: None)
    return daemon.labels[image.tag]


@pytest.mark.slow
@pytest.mark.usefixtures("without_debian")
def test_edit_during_a_build_makes_the_image_stale(
    daemon: Daemon, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sources_digest(image_named("android"))

    def edited_afterwards(*arguments: Any) -> None:
        write_context(*arguments)
        with (tables / "android" / "Dockerfile").open("a") as file:
            file.write("# changed\n")

    monkeypatch.setattr(build, "write_context", edited_afterwards)
    assert labels(daemon, {})[SOURCES_LABEL] == before != sources_digest(image_named("android"))


@pytest.mark.slow
@pytest.mark.usefixtures("without_debian")
def test_label_names_arguments_without_their_values(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "secret.zip").touch()
    image_labels = labels(daemon, {DIGEST: "a b", ARCHIVE: str(tmp_path / "secret.zip")})
    assert image_labels[ARGUMENTS_LABEL] == f"{ARCHIVE} {DIGEST}"
    assert "secret" not in str(image_labels) and "a b" not in image_labels.values()
    assert labels(daemon, {ARCHIVE: ""})[ARGUMENTS_LABEL] == ""


@pytest.mark.slow
def test_refuses_a_rebuild_that_drops_arguments(daemon: Daemon, tmp_path: Path) -> None:
    engine = Engine(daemon, "unix:///none")
    daemon.add("android", **{ARGUMENTS_LABEL: f"{ARCHIVE} {DIGEST} GONE"})
    assert [needed for *_, needed in to_build(engine, ["android"])] == [False, False]
    (tmp_path / "ndk.zip").touch()
    complete = {ARCHIVE: str(tmp_path / "ndk.zip"), DIGEST: "1"}
    refusals: list[tuple[dict[str, str], bool, str]] = [
        ({}, True, f"{ARCHIVE}, {DIGEST}"),
        ({ARCHIVE: complete[ARCHIVE]}, False, DIGEST),
    ]
    for arguments, again, lost in refusals:
        with pytest.raises(UsageError, match=f"android was made with {lost}, and would be") as refused:
            to_build(engine, ["android"], build_args=arguments, no_cache=again)
        needed = " ".join(f"--build-arg {key}=…" for key in lost.split(", "))
        assert refused.value.hint.startswith(f"`toolchain image build android {needed}`; an empty value")
    daemon.add("android", **{ARGUMENTS_LABEL: f"{ARCHIVE} {DIGEST}", SOURCES_LABEL: "older"})
    with pytest.raises(UsageError, match=f"made with {ARCHIVE}"):
        to_build(engine)
    for arguments in (complete, dict.fromkeys(complete, "")):
        assert to_build(engine, ["android"], build_args=arguments)[-1][-1]
