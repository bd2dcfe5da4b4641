"""Writes a Relax executable as object files, and a tar of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from toolchain.architectures.table import architecture_of
from toolchain.processes.interrupts import uninterrupted

# Edits the text of an LLVM module.


def edited(module: tvm.runtime.Module, edit: Callable[[str], str], folder: Path) -> tvm.runtime.Module:
    """Return a module made from the edited LLVM text of another, with the same imported modules.

    Parameters
    ----------
    edit
        Function from LLVM text to LLVM text.
    folder
        Folder for a temporary file: TVM reads modules only from files.
    """
    text = folder / "edited.ll"
    text.write_text(edit(module.inspect_source("ll")))
    try:
        with uninterrupted():
            made = tvm.runtime.load_module(str(text))
    finally:
        text.unlink()
    for imported in module.imports:
        made.import_module(imported)
    return made


# Makes LLVM use multiply-accumulate by lane on 32-bit Arm cores.
#
# TVM lets LLVM fuse any product with any sum. Cores before VFPv4, such as the Cortex-A9, have no fused
# instruction; for them LLVM then also stops forming the chained one, `vmla` (`UseFPVMLx` in its
# ARMInstrInfo.td), and code that needs twice the registers spills. Cores with VFPv4 have `vfma`, but A32
# has no form of it that takes one lane of a register (Arm ARM for ARMv7-A, A8.8.317), so that every input
# is duplicated into a register of its own first, and spills too. `vmla` by lane is right for all of them.
#
# Neither the target's attributes nor LLVM's options change that; LLVM makes an exception only for functions
# with the attribute `minsize`. So functions that multiply and add get this attribute after all
# optimisation, when only instruction selection is left; and for them VFPv4 is switched off.

# For the Cortex-A9, LLVM by default expands a vmla that follows another one; forms none whose sum another
# kind of instruction reads, nor the chain before it; and schedules without regard to register pressure (LLVM,
# lib/Target/ARM/ARMFeatures.td: FeatureExpandMLx, FeatureHasVMLxHazards, FeatureUseMISched). The row of the
# architecture has the features (`multiply_add_features`).
_FUNCTION = re.compile(r"^(define .* #)(\d+)( .*\{\n(?s:.)*?^\})$", re.MULTILINE)
_GROUP = re.compile(r"^attributes #(\d+) = \{ (.*) \}$", re.MULTILINE)
_CHAINED = re.compile(r"@llvm\.fmuladd\.| fmul .*float(?s:.*) f(?:add|sub) .*float")


def form_multiply_accumulate(executable: tvm.runtime.Executable, folder: Path) -> tvm.runtime.Executable:
    """Return the executable, generated again if its architecture has `multiply_add_features`.

    Parameters
    ----------
    executable
        Result of `tvm.compile` for a network or for functions; that of a network is modified in place.
    folder
        Folder for a temporary file.
    """
    if executable.mod.kind == "llvm":
        made = _marked(executable.mod, folder)
        return executable if made is executable.mod else tvm.runtime.Executable(made)
    imports = [_marked(module, folder) for module in executable.mod.imports]
    executable.mod.clear_imports()
    for module in imports:
        executable.mod.import_module(module)
    return executable


def _marked(module: tvm.runtime.Module, folder: Path) -> tvm.runtime.Module:
    if module.kind != "llvm":
        return module
    row = architecture_of(str(json.loads(module["_get_target_string"]()).get("mtriple", "")))
    if row is None or not row.multiply_add_features:
        return module
    return edited(module, partial(marked, features=row.multiply_add_features), folder)


def marked(text: str, *, features: str) -> str:
    """Return LLVM text with `minsize` and `features` for each function that multiplies and adds floats."""
    groups = dict(_GROUP.findall(text))
    first = max(map(int, groups), default=0) + 1
    added: dict[str, int] = {}

    def mark(function: re.Match[str]) -> str:
        head, group, body = function.groups()
        if '"target-cpu"' not in groups[group] or not _CHAINED.search(body):
            return function[0]
        return f"{head}{added.setdefault(group, first + len(added))}{body}"

    text = _FUNCTION.sub(mark, text)
    lines = [
        f"attributes #{added[group]} = {{ minsize {_featured(groups[group], features)} }}" for group in added
    ]
    return "\n".join([text, *lines, ""])


def _featured(attributes: str, features: str) -> str:
    key = '"target-features"="'
    if key not in attributes:
        return f'{attributes} {key}{features}"'
    return re.sub(f'({key}[^"]*)"', rf'\1,{features}"', attributes)


# Makes LLVM write objects to memory, from where we write them to the disk.
#
# If LLVM cannot write a file, for example on a full disk, it ends the process instead of failing.


def object_of(module: tvm.runtime.Module) -> bytes:
    """Return the ELF object of a module."""
    handle = os.memfd_create("object.o")
    with os.fdopen(handle, "rb") as memory:
        module.write_to_file(_name(handle), "o")
        return memory.read()


@contextmanager
def files_in_memory(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """Redirect files of these names to memory within the block, and write them to the disk at its end.

    Raises
    ------
    OSError
        The disk refuses.
    """
    handles = {folder / name: os.memfd_create(name) for name in names}
    try:
        for file, handle in handles.items():
            file.symlink_to(_name(handle))
        yield
        for file, handle in handles.items():
            file.unlink()
            if os.fstat(handle).st_size:
                with open(handle, "rb", closefd=False) as memory, file.open("wb") as disk:
                    shutil.copyfileobj(memory, disk)
    finally:
        for file, handle in handles.items():
            os.close(handle)
            with suppress(OSError):
                if file.is_symlink():
                    file.unlink()


def _name(handle: int) -> str:
    return f"/proc/{os.getpid()}/fd/{handle}"


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
