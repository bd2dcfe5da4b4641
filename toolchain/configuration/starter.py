"""Writes a first `toolchain.toml` with every key, commented out, and its default."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.keys import ENVIRONMENT_PREFIX, Settings
from toolchain.errors import UsageError
from toolchain.files.atomic import write_text


def starter_text(environment: Mapping[str, str] | None = None) -> str:
    """Return the text of the file, generated from the schema of the settings; "" is no value.

    Parameters
    ----------
    environment
        Environment variables, which count more than the file: where one is set, a comment says so. None:
        those of this process.
    """
    environment = os.environ if environment is None else environment
    lines = ["# Settings of the toolchain; found from any folder below this one.", ""]
    for key, field in Settings.model_fields.items():
        default = json.dumps("" if field.default is None else field.default, default=str)
        variable = f"{ENVIRONMENT_PREFIX}{key.upper()}"
        held = (
            [f"# {variable} is set now, and counts instead of this file."] if variable in environment else []
        )
        lines += [f"# {field.description} Also: {variable}", *held, f"# {key} = {default}", ""]
    return "\n".join(lines[:-1]) + "\n"


def write_starter(folder: Path) -> Path:
    """Write the file into `folder` and return its path.

    Raises
    ------
    UsageError
        The file exists already; it is not changed.
    ToolchainError
        The folder cannot be written.
    """
    file = folder.absolute() / FILE_NAME
    if file.exists():
        raise UsageError(f"{file} exists already and was not changed", f"edit {file}, or move it away first")
    write_text(file, starter_text())
    return file
