"""Wheels with edge-rt: equal files are equal bytes, and two builds that differ are no release."""

from __future__ import annotations

import json
import shutil
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from toolchain import __version__
from toolchain.runtime import expected_fingerprint
from toolchain.runtime.wheel import digest_of
from tools.distribution import runtimes
from tools.distribution.building import BuildError
from tools.distribution.runtimes import Compiled, pack_wheel
from tools.distribution.tree import ROOT

MADE = 1_790_000_000


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("edge-rt", "libedge.so"):
        (folder / name).write_bytes(b"\x7fELF " + name.encode())
    return folder


@pytest.mark.slow
def test_a_wheel_is_the_same_from_any_folder_and_says_what_it_is(files: Path, tmp_path: Path) -> None:
    first = pack_wheel("aarch64", files, tmp_path / "one", tmp_path / "dist", MADE)
    again = pack_wheel("aarch64", files, tmp_path / "a" / "longer" / "two", tmp_path / "again", MADE)
    assert first.name == again.name == f"edge_toolchain_rt_aarch64-{__version__}-py3-none-any.whl"
    assert first.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = set(archive.namelist())
        info = f"edge_toolchain_rt_aarch64-{__version__}.dist-info"
        metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
        assert archive.read("edge_toolchain_rt_aarch64/edge-rt") == (files / "edge-rt").read_bytes()
        notice = archive.read(f"{info}/licenses/NOTICE")
    assert metadata["License-Expression"] == "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND ISC"
    assert metadata["Requires-Dist"] is None and notice == (ROOT / "NOTICE").read_bytes()
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/LICENSE.libsodium"} <= names


def test_the_digests_are_those_of_the_files(files: Path, tmp_path: Path) -> None:
    (tmp_path / "toolchain" / "runtime").mkdir(parents=True)
    Compiled({"armv7": files}).pin(tmp_path)
    pinned = json.loads((tmp_path / "toolchain" / "runtime" / "digests.json").read_text())
    assert pinned["fingerprint"] == expected_fingerprint()
    assert pinned["files"]["armv7"]["edge-rt"] == digest_of((files / "edge-rt").read_bytes())


def test_two_builds_that_differ_are_no_release(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(_arch: str, _sources: Path, folder: Path) -> Path:
        return Path(shutil.copytree(files, folder))

    monkeypatch.setattr(runtimes, "copy_sources", lambda folder: folder)
    monkeypatch.setattr(runtimes, "compile_elsewhere", again)
    Compiled({"aarch64": files}).compare(tmp_path / "same", lambda _: None)

    def other(arch: str, sources: Path, folder: Path) -> Path:
        (again(arch, sources, folder) / "libedge.so").write_bytes(b"differs")
        return folder

    monkeypatch.setattr(runtimes, "compile_elsewhere", other)
    with pytest.raises(BuildError, match=r"libedge\.so for aarch64: two builds differ"):
        Compiled({"aarch64": files}).compare(tmp_path / "other", lambda _: None)
