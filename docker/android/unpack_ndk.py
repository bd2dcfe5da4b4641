"""unpack_ndk.py FOLDER ARCHIVE SHA256: unpacks what compiles and links of an Android NDK, if one is given.

FOLDER/clang++ is the compiler for the oldest 64-bit Android that the NDK knows. ARCHIVE is Google's zip
for Linux on x86-64; `/`: none is given, and FOLDER stays empty.
"""

from __future__ import annotations

import hashlib
import re
import stat
import sys
import zipfile
from pathlib import Path

# NDK releases since r19 (its documentation, "Use the NDK with other build systems").
TOOLCHAIN = "toolchains/llvm/prebuilt/linux-x86_64/"
COMPILER = re.compile(r"aarch64-linux-android(\d+)-clang\+\+")
NONE = Path("/")
# The rest builds apps with Google's own tools.
KEPT = ("NOTICE", "NOTICE.toolchain", "source.properties")


def check(archive: Path, wanted: str) -> None:
    """End with a message if the archive is not the one that was meant."""
    if not re.fullmatch(r"[0-9a-f]{64}", wanted):
        sys.exit(f"NDK_SHA256={wanted}: the SHA-256 of NDK_ARCHIVE is wanted, 64 hexadecimal digits")
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        sys.exit(f"{archive.name} has the SHA-256 {found}, NDK_SHA256 is {wanted}")


def unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the members that are kept, without the archive's own folder around them."""
    for member in archive.infolist():
        name = member.filename.partition("/")[2]
        if member.is_dir() or not (name in KEPT or name.startswith(TOOLCHAIN)):
            continue
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            sys.exit(f"{archive.filename}: {member.filename} is outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = member.external_attr >> 16  # as zip programs of Unix store it
        if stat.S_ISLNK(mode):
            target.symlink_to(archive.read(member).decode())
            continue
        with archive.open(member) as source, target.open("wb") as file:
            while block := source.read(1 << 20):
                file.write(block)
        target.chmod(0o755 if mode & 0o100 else 0o644)


def main(folder: Path, archive: Path, wanted: str) -> None:
    """Do it."""
    folder.mkdir(parents=True)
    if archive == NONE:
        return
    if not archive.is_file():
        sys.exit(f"NDK_ARCHIVE={archive.name}: no such file in the build's context")
    check(archive, wanted)
    try:
        with zipfile.ZipFile(archive) as opened:
            unpack(opened, folder)
    except zipfile.BadZipFile as error:
        sys.exit(f"{archive.name} is not a zip archive: {error}")
    programs = (folder / TOOLCHAIN / "bin").glob("aarch64-linux-android*")
    levels = {int(found[1]): found[0] for path in programs if (found := COMPILER.fullmatch(path.name))}
    if not levels:
        sys.exit(f"{archive.name} is not an NDK for Linux: it has no {TOOLCHAIN}bin/{COMPILER.pattern}")
    # The NDK's programs look for each other beside themselves: called by their own path, not by a link.
    compiler = folder / "clang++"
    compiler.write_text(f'#!/bin/sh\nexec {folder / TOOLCHAIN / "bin" / levels[min(levels)]} "$@"\n')
    compiler.chmod(0o755)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
