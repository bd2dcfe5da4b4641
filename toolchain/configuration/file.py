"""Which `toolchain.toml` holds: the nearest one above the current folder, if it is the user's own."""

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
"""Names the file to obey, whoever owns it; `/dev/null`: none."""


class FoundFile(NamedTuple):
    """The file to obey, and warnings about others that were passed by."""

    file: Path | None
    skipped: tuple[str, ...] = ()


def find_file(start: Path, environment: Mapping[str, str]) -> FoundFile:
    """Return the file that the environment names, else the nearest in `start` or a folder above it.

    Whoever may write a folder above, such as /tmp, can put a file there: another user's is passed by. One in
    the user's own folders is an error, as theirs may have been replaced.

    Raises
    ------
    UsageError
        The file that is named is none; or the one that was found is another user's.
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
        with suppress(PermissionError):  # a folder above that may not be looked into has nothing for us
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
