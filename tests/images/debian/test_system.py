"""The systems of emulated boards: what is in one, when it is made anew, what is said when it cannot be."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.unique import UNIQUE
from toolchain.configuration.settings import cache_dir
from toolchain.errors import ToolchainError
from toolchain.images.catalogue import Image, image_named
from toolchain.images.debian import system, system_files
from toolchain.images.debian.system import build, cached_name, ensure_image, ensure_system, system_digest
from toolchain.images.engine import IMAGE_LABEL, SOURCES_LABEL, ContainerRequest, Engine
from toolchain.images.registry.archive import CHANGED

pytestmark = pytest.mark.slow

ARM64 = image_named("board-arm64")


def test_cache_names_differ_by_image_and_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cached_name(ARM64)
    assert before == cached_name(ARM64) != cached_name(image_named("board-armhf"))
    monkeypatch.setitem(system_files.FILES, "etc/motd", (0o644, "new\n"))
    assert cached_name(ARM64) != before


@pytest.mark.slow
def test_system_image_contains_no_host_data_and_no_secret(engine: Engine) -> None:
    assert ensure_image(engine, "arm64", print) == ARM64.tag
    assert (engine.image_labels(ARM64.tag) or {})[SOURCES_LABEL] == system_digest(ARM64)
    file = cache_dir() / system.FOLDER / cached_name(ARM64)
    if not file.exists():  # the engine had the image from before
        build(file, ARM64)
    with tarfile.open(file) as image:
        with tarfile.open(fileobj=image.extractfile("layer.tar")) as layer:
            entries = {entry.name: entry for entry in layer}
        program = _read(image, "usr/sbin/sshd")
    assert program[18:20] == b"\xb7\x00", "an aarch64 program"
    assert not [name for name in entries if name.startswith(("dev/", "var/cache/apt")) or "host_key" in name]
    assert not {"etc/resolv.conf", "etc/hostname", "usr/bin/gcc"} & set(entries)
    assert entries["usr/bin/sudo"].mode & 0o4000 and entries["usr/bin/sudo"].uid == 0
    assert {entry.mtime for entry in entries.values()} == {CHANGED}
    assert sum(entry.size for entry in entries.values()) < 150 << 20


def _read(image: tarfile.TarFile, name: str) -> bytes:
    with tarfile.open(fileobj=image.extractfile("layer.tar")) as layer:
        file = layer.extractfile(name)
        assert file is not None
        return file.read()


def test_older_recipe_is_rebuilt_and_its_image_removed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    tool = tmp_path / "bin" / "mmdebstrap"  # a system of no packages is made in no time
    tool.parent.mkdir()
    tarfile.open(tmp_path / "none.tar", "w").close()
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/none.tar\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    image = Image(name=f"test-{UNIQUE}", description="a test", system="arm64")
    users: list[str] = []
    built = []

    def remake(content: str) -> str:
        monkeypatch.setitem(system_files.FILES, "etc/motd", (0o644, content))
        assert ensure_system(engine, image, print) == image.tag
        built.append(str(engine.api.inspect_image(image.tag)["Id"]))
        return built[-1]

    try:
        first = remake("one\n")
        assert remake("one\n") == first, "nothing to do"
        second = remake("two\n")
        assert second != first and _images(engine, image) == {second}
        request = ContainerRequest(image.tag, image.name, "h", "test", {}, {}, {}, (), 16, 16)
        users.append(engine.create(request))
        third = remake("three\n")
        assert _images(engine, image) == {second, third}, "a container uses it"
    finally:
        for container in users:
            engine.remove(container)
        engine.remove_superseded(image.name, image.tag)
        engine.remove_image(image.tag)
    assert _images(engine, image) == set()


def _images(engine: Engine, image: Image) -> set[str]:
    return {i["Id"] for i in engine.api.images(filters={"label": f"{IMAGE_LABEL}={image.name}"})}


@pytest.mark.slow
def test_unreachable_mirror_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", "http://127.0.0.1:1/debian")
    with pytest.raises(ToolchainError, match="mmdebstrap cannot unpack Debian bookworm for arm64") as raised:
        build(tmp_path / "image.tar", ARM64)
    assert "http://127.0.0.1:1/debian" in raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_invalid_packages_leave_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "mmdebstrap"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho no tar at all; echo 'E: out of luck' >&2; exit 25\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ToolchainError, match=r"for arm64: E: out of luck"):
        build(tmp_path / "image.tar", ARM64)
    assert not (tmp_path / "image.tar").exists()


def test_layer_keeps_links_and_skips_dropped_paths(tmp_path: Path) -> None:
    packages = io.BytesIO()
    with tarfile.open(fileobj=packages, mode="w") as source:
        for name in ("./usr/bin/x", "./dev/null", "./var/run", "./var/runner", "./usr/share/doc/x/copyright"):
            source.addfile(tarfile.TarInfo(name))
        hard = tarfile.TarInfo("./usr/bin/y")
        hard.type, hard.linkname = tarfile.LNKTYPE, "./usr/bin/x"
        source.addfile(hard)
    packages.seek(0)
    system._write_layer(packages, tmp_path / "layer")
    with tarfile.open(tmp_path / "layer") as layer:
        assert {"usr/bin/x", "usr/bin/y", "var/runner", "run/sshd"} <= set(layer.getnames())
        assert not {"dev/null", "usr/share/doc/x/copyright"} & set(layer.getnames())
        assert layer.getmember("usr/bin/y").linkname == "usr/bin/x"
        assert layer.getmember("var/run").issym() and layer.getnames().count("var/run") == 1
