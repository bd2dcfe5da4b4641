"""Which `toolchain.toml` holds: the nearest one above the current folder, if it is the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from toolchain.errors import UsageError
from toolchain.files.ownership import other_writer

FILE_NAME = "toolchain.toml"
FILE_VARIABLE = "TOOLCHAIN_CONFIG"
"""Names the file to obey, whoever owns it; `/dev/null`: none."""


def find_file(start: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the file that the environment names, else the nearest in `start` or a folder above it.

    Raises
    ------
    UsageError
        The file that is named is none; or the one that was found is another user's.
    """
    if named := environment.get(FILE_VARIABLE):
        if named == os.devnull:
            return None
        file = start / named
        if not file.is_file():
            raise UsageError(
                f"{FILE_VARIABLE}={named}: there is no such file", f"name a {FILE_NAME}, or unset it"
            )
        return file
    for folder in (start, *start.parents):
        file = folder / FILE_NAME
        with suppress(PermissionError):  # a folder above that may not be looked into has nothing for us
            if file.is_file():
                return _obeyed(file)
    return None


def _obeyed(file: Path) -> Path:
    try:
        problem = other_writer(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", f"look at {file}") from error
    if problem is not None:
        raise UsageError(
            f"{file} is not obeyed, as it can name programs to run: {problem}",
            f"if you trust it: {FILE_VARIABLE}={file}; to go without it: {FILE_VARIABLE}={os.devnull}",
        )
    return file
