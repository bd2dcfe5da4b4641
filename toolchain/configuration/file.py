"""Finds the nearest `toolchain.toml` at or above the current folder, if it is the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from toolchain.errors import UsageError
from toolchain.files.ownership import other_writer, placed_by_another

FILE_NAME = "toolchain.toml"
FILE_VARIABLE = "TOOLCHAIN_CONFIG"
"""Variable that names the file to use, whoever owns it; `/dev/null` for no file."""


class FoundFile(NamedTuple):
    """The file to use, and warnings about files that were skipped."""

    file: Path | None
    skipped: tuple[str, ...] = ()


def find_file(start: Path, environment: Mapping[str, str]) -> FoundFile:
    """Return the file that the environment names, else the nearest in `start` or a folder above it.

    Any user can put a file into a shared folder such as /tmp, so files of other users are skipped. In the
    user's own folders such a file is an error, since it may have replaced theirs.

    Raises
    ------
    UsageError
        The named file does not exist, or the file found belongs to another user.
    """
    if named := environment.get(FILE_VARIABLE):
        if named == os.devnull:
            return FoundFile(None)
        file = start / named
        if not file.is_file():
            raise UsageError(
                f"{FILE_VARIABLE}={named}: there is no such file", f"name a {FILE_NAME}, or unset it"
            )
        return FoundFile(file)
    skipped: list[str] = []
    for folder in (start, *start.parents):
        file = folder / FILE_NAME
        with suppress(PermissionError):  # skip a folder that may not be searched
            if file.is_file():
                problem = _problem(file)
                if problem is None:
                    return FoundFile(file, tuple(skipped))
                said = f"{file} is not obeyed, as it can name programs to run: {problem}"
                trust = f"if you trust it: {FILE_VARIABLE}={file}"
                if folder == start or not placed_by_another(file):
                    raise UsageError(said, f"{trust}; to go without it: {FILE_VARIABLE}={os.devnull}")
                skipped.append(f"{said}; {trust}")
    return FoundFile(None, tuple(skipped))


def _problem(file: Path) -> str | None:
    try:
        return other_writer(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", f"look at {file}") from error
