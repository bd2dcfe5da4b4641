"""The system of container boards: what is in it, and what is said when it cannot be made."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from toolchain.boards import rootfs
from toolchain.config import cache_dir
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.engine import connect


def test_the_cache_tells_architectures_and_recipes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs.cached_name("arm64")
    assert before == rootfs.cached_name("arm64") != rootfs.cached_name("armhf")
    monkeypatch.setitem(rootfs._FILES, "etc/motd", (0o644, "new\n"))
    assert rootfs.cached_name("arm64") != before


@pytest.mark.slow
def test_the_image_holds_nothing_of_this_host_and_no_secret() -> None:
    with connect() as engine:
        tag = rootfs.ensure_image(engine, "aarch64", print)
        assert engine.has_image(tag)
    file = cache_dir() / "rootfs" / rootfs.cached_name("arm64")
    if not file.exists():  # the engine had the image from before
        rootfs.build(file, "arm64", tag)
    with tarfile.open(file) as image:
        with tarfile.open(fileobj=image.extractfile("layer.tar")) as layer:
            entries = {entry.name: entry for entry in layer}
        program = _read(image, "usr/sbin/sshd")
    assert program[18:20] == b"\xb7\x00", "an aarch64 program"
    assert not [name for name in entries if name.startswith(("dev/", "var/cache/apt")) or "host_key" in name]
    assert not {"etc/resolv.conf", "etc/hostname", "usr/bin/gcc"} & set(entries)
    assert entries["usr/bin/sudo"].mode & 0o4000 and entries["usr/bin/sudo"].uid == 0
    assert {entry.mtime for entry in entries.values()} == {rootfs._CHANGED}
    assert sum(entry.size for entry in entries.values()) < 150 << 20


def _read(image: tarfile.TarFile, name: str) -> bytes:
    with tarfile.open(fileobj=image.extractfile("layer.tar")) as layer:
        found = layer.extractfile(name)
        assert found is not None
        return found.read()


@pytest.mark.slow
def test_a_mirror_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_MIRROR", "http://127.0.0.1:1/debian")
    with pytest.raises(ToolchainError, match="mmdebstrap cannot make") as raised:
        rootfs.build(tmp_path / "image.tar", "arm64", "t:1")
    assert "http://127.0.0.1:1/debian" in raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_mmdebstrap_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"no 'mmdebstrap'.*apt-get install mmdebstrap"):
        rootfs.build(tmp_path / "image.tar", "arm64", "t:1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_ends_its_children(tmp_path: Path, number: signal.Signals) -> None:
    tool = tmp_path / "bin" / "mmdebstrap"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    tool.chmod(0o755)
    (tmp_path / "out").mkdir()
    code = (
        "import signal, sys; from pathlib import Path; from toolchain.boards import rootfs\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))\n"
        f"rootfs.build(Path({str(tmp_path / 'out' / 'image')!r}), 'arm64', 't:1')"
    )
    environment = {**os.environ, "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE) as owner:
        deadline = time.monotonic() + 30
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        owner.send_signal(number)
        owner.communicate(timeout=20)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a tar at all" * 100])
def test_what_is_no_tar_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    tool = tmp_path / "bin" / "mmdebstrap"
    tool.parent.mkdir()
    (tmp_path / "content").write_bytes(content)
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/content; echo 'E: out of luck' >&2; exit 25\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ToolchainError, match=r"for arm64 boards: E: out of luck"):
        rootfs.build(tmp_path / "image.tar", "arm64", "t:1")
    assert not (tmp_path / "image.tar").exists()


def test_the_layer_keeps_links_and_drops_what_is_of_no_use(tmp_path: Path) -> None:
    packages = io.BytesIO()
    with tarfile.open(fileobj=packages, mode="w") as source:
        for name in ("./usr/bin/x", "./dev/null", "./var/run", "./var/runner", "./usr/share/doc/x/copyright"):
            source.addfile(tarfile.TarInfo(name))
        hard = tarfile.TarInfo("./usr/bin/y")
        hard.type, hard.linkname = tarfile.LNKTYPE, "./usr/bin/x"
        source.addfile(hard)
    packages.seek(0)
    rootfs._write_layer(packages, tmp_path / "layer")
    with tarfile.open(tmp_path / "layer") as layer:
        assert {"usr/bin/x", "usr/bin/y", "var/runner", "run/sshd"} <= set(layer.getnames())
        assert not {"dev/null", "usr/share/doc/x/copyright"} & set(layer.getnames())
        assert layer.getmember("usr/bin/y").linkname == "usr/bin/x"
        assert layer.getmember("var/run").issym() and layer.getnames().count("var/run") == 1
