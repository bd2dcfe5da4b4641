"""The cache folder: what is listed, what is thrown away, what never."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from toolchain.boards.emulation.system import base as machines
from toolchain.cache import list_entries, prune
from toolchain.errors import ToolchainError
from toolchain.images.catalogue import image_named
from toolchain.images.debian.system import cached_name
from toolchain.runtime import expected_fingerprint

OLD = [".4567-aarch64.killed", "0123-aarch64", "armhf-0123.tar", "arm64-0123"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache with current and old things, and things that are not ours."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(folder))
    for name in (
        f"runtime/{expected_fingerprint()}-aarch64/edge-rt",
        "runtime/0123-aarch64/edge-rt",
        "runtime/.4567-aarch64.killed/edge-rt.o",
        "runtime/.89ab-aarch64.compiling/edge-rt.o",
        "stubs/x86_64-linux-gnu-2.27-00/libc.so.6",
        f"rootfs/{cached_name(image_named('board-arm64'))}",
        "rootfs/armhf-0123.tar",
        f"machines/{machines.cached_name()}/kernel",
        "machines/arm64-0123/kernel",
        "zig/o/00/libc++.a",
        "mine/letter.txt",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(2**20))
    long_ago = time.time() - 7 * 86400
    os.utime(folder / "runtime" / ".4567-aarch64.killed", (long_ago, long_ago))
    return folder


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def test_everything_of_ours_is_listed_with_its_size(cache: Path) -> None:
    entries = list_entries()
    assert len(entries) == 10
    assert all(entry.mib == 1 and entry.path.is_relative_to(cache) for entry in entries)
    assert [e.path.name for e in entries if not e.current] == OLD


@pytest.mark.usefixtures("cache")
def test_prune_takes_what_is_not_current() -> None:
    wanted = [entry.path for entry in list_entries() if entry.current]
    assert [entry.path.name for entry in prune(dry_run=True)] == OLD
    assert len(list_entries()) == 10
    assert len(prune()) == 4
    assert [entry.path for entry in list_entries()] == wanted
    assert prune() == []


def test_prune_everything_leaves_what_is_not_ours_and_what_is_being_made(cache: Path) -> None:
    prune(everything=True)
    assert [entry.path.name for entry in list_entries()] == [".89ab-aarch64.compiling"]
    assert files(cache) == {"edge-rt.o", "letter.txt"}


def test_a_runtime_that_someone_compiles_stays(cache: Path) -> None:
    with FileLock(cache / "runtime" / "0123-aarch64.lock"):
        assert "0123-aarch64" not in [entry.path.name for entry in prune()]
    assert (cache / "runtime" / "0123-aarch64" / "edge-rt").is_file()


def test_links_lead_nowhere(cache: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "old").mkdir(parents=True)
    (outside / "old" / "file").touch()
    (cache / "stubs" / "link").symlink_to(outside)
    (cache / "zig").rename(cache / "not-zig")
    (cache / "zig").symlink_to(outside)
    prune(everything=True)
    assert (outside / "old" / "file").exists() and (cache / "zig").is_symlink()
    assert not (cache / "stubs" / "link").is_symlink()


def test_an_empty_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "none"))
    assert list_entries() == prune(everything=True) == []


def test_what_cannot_be_removed_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(self), None, str(target))

    monkeypatch.setattr(Path, "rename", refuse)  # root may remove anything
    with pytest.raises(ToolchainError, match=r"cannot remove .*: Permission denied"):
        prune()
    assert cache.is_dir()
