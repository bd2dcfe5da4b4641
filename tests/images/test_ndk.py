"""An NDK's archive on its way into the image `android`: with a stand-in of its form, no NDK was unpacked."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from toolchain.images.catalogue import image_named

BIN = "toolchains/llvm/prebuilt/linux-x86_64/bin"
# What the NDK's own wrapper does (toolchains/llvm/prebuilt/*/bin in any release).
WRAPPER = '#!/bin/sh\nexec "$(dirname "$0")/clang++" --target=aarch64-linux-android{level} "$@"\n'
SAYS = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"
Members = dict[str, tuple[str, int]]
NDK: Members = {
    f"{BIN}/clang-99": (SAYS, stat.S_IFREG | 0o755),
    f"{BIN}/clang++": ("clang-99", stat.S_IFLNK | 0o777),
    **{
        f"{BIN}/aarch64-linux-android{level}-clang++": (WRAPPER.format(level=level), stat.S_IFREG | 0o755)
        for level in (35, 21, 22)
    },
    "NOTICE": ("licences", stat.S_IFREG | 0o644),
    "simpleperf/report.py": ("", stat.S_IFREG | 0o755),
}


def archive_of(members: Members, file: Path) -> str:
    """Write an archive as Google's is made; return its SHA-256."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, (content, mode) in members.items():
            entry = zipfile.ZipInfo(f"android-ndk-r0/{name}")
            entry.create_system, entry.external_attr = 3, mode << 16
            archive.writestr(entry, content)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Unpacked:
    folder: Path
    code: int
    output: str


Unpack = Callable[..., Unpacked]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    script = image_named("android").path / "unpack_ndk.py"

    def run(archive: Path, digest: str) -> Unpacked:
        folder = tmp_path / "opt" / "ndk"
        done = subprocess.run(
            [sys.executable, script, folder, archive, digest], capture_output=True, text=True, timeout=60
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Unpacked(folder, done.returncode, done.stderr)

    return run


def test_ndk_compiler_for_the_oldest_android_runs(unpack: Unpack, tmp_path: Path) -> None:
    file = tmp_path / "ndk.zip"
    unpacked = unpack(file, archive_of(NDK, file))
    assert unpacked.code == 0, unpacked.output
    version = subprocess.run(
        [unpacked.folder / "clang++", "a b.o"], capture_output=True, text=True, check=True
    )
    assert version.stdout.splitlines() == ["--target=aarch64-linux-android21", "a b.o"]
    assert (unpacked.folder / "NOTICE").read_text() == "licences"
    assert not (unpacked.folder / "simpleperf").exists()


def test_without_an_archive_nothing_is_unpacked(unpack: Unpack) -> None:
    unpacked = unpack(Path("/"), "")
    assert unpacked.code == 0 and list(unpacked.folder.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("digest", "says"),
    [
        ("0" * 64, "ndk.zip has the SHA-256 "),
        ("", "NDK_SHA256=: the SHA-256 of NDK_ARCHIVE is wanted"),
        ("sha256:1", "NDK_SHA256=sha256:1: the SHA-256 of NDK_ARCHIVE is wanted"),
    ],
)
def test_refuses_an_archive_with_another_digest(
    unpack: Unpack, tmp_path: Path, digest: str, says: str
) -> None:
    archive_of(NDK, tmp_path / "ndk.zip")
    unpacked = unpack(tmp_path / "ndk.zip", digest)
    assert unpacked.code == 1 and says in unpacked.output
    assert list(unpacked.folder.iterdir()) == []


def test_refuses_a_zip_that_is_not_an_ndk(unpack: Unpack, tmp_path: Path) -> None:
    file = tmp_path / "ndk.zip"
    unpacked = unpack(file, archive_of({"NOTICE": NDK["NOTICE"]}, file))
    assert unpacked.code == 1 and "ndk.zip is not an NDK for Linux" in unpacked.output


def test_missing_archive_is_reported(unpack: Unpack, tmp_path: Path) -> None:
    unpacked = unpack(tmp_path / "none.zip", "0" * 64)
    assert unpacked.code == 1 and "NDK_ARCHIVE=none.zip: no such file" in unpacked.output


def test_refuses_a_file_that_is_not_a_zip(unpack: Unpack, tmp_path: Path) -> None:
    file = tmp_path / "ndk.zip"
    file.write_bytes(b"no archive")
    unpacked = unpack(file, hashlib.sha256(b"no archive").hexdigest())
    assert unpacked.code == 1 and "ndk.zip is not a zip archive" in unpacked.output


def test_refuses_members_outside_the_folder(unpack: Unpack, tmp_path: Path) -> None:
    file = tmp_path / "ndk.zip"
    outside = {f"{BIN}/../../../../../../out": ("", stat.S_IFREG | 0o644)}
    unpacked = unpack(file, archive_of({**NDK, **outside}, file))
    assert unpacked.code == 1 and "is outside of its folder" in unpacked.output
    assert not (tmp_path / "out").exists() and not (tmp_path / "opt" / "out").exists()
