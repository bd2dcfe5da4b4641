"""Makes LLVM write objects to memory, from where we write them to the disk.

If LLVM cannot write a file, for example on a full disk, it ends the process instead of failing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import tvm


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
