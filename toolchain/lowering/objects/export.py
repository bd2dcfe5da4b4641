"""Writes a Relax executable as object files, and a tar of them."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import tvm

from toolchain.lowering.objects.armv7 import form_multiply_accumulate
from toolchain.lowering.objects.in_memory import files_in_memory


def export_objects(executable: tvm.runtime.Executable, folder: Path) -> tuple[Path, ...]:
    """Write `lib0.o` (code) and, if there are constants, `devc.o` into `folder`; return their paths."""
    objects: list[Path] = []

    def keep(_output: str, files: list[str], **_options: Any) -> None:
        # TVM deletes its own workspace, but keeps one that it was given.
        objects.extend(Path(file) for file in files)

    executable = form_multiply_accumulate(executable, folder)
    with files_in_memory(folder, ("lib0.o", "devc.o")):
        executable.export_library(str(folder / "unused.so"), fcompile=keep, workspace_dir=str(folder))
    return tuple(objects)


def write_object_tar(objects: tuple[Path, ...], out: Path) -> None:
    """Write the objects as a tar whose bytes depend only on their contents."""
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for path in objects:
            member = tarfile.TarInfo(path.name)
            member.size = path.stat().st_size
            member.mode = 0o644
            with path.open("rb") as file:
                tar.addfile(member, file)
