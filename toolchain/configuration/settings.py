"""Merges `toolchain.toml`, the environment and the defaults, and keeps the origin of each value.

Precedence: option > environment (`TOOLCHAIN_…`) > file > default. Commands handle options themselves; this
module handles the rest.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from toolchain.configuration.file import FILE_NAME, find_file
from toolchain.configuration.keys import ENVIRONMENT_PREFIX, SECRETS, BoardEntry, Boards, Settings
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.table import reason_of
from toolchain.errors import MissingError, UsageError
from toolchain.foreign import printable, shortened

# Words for a wrong key or value of `toolchain.toml`: its origin, the mistake, and what is allowed.

_IN_ENTRY = 3  # boards, the board's name, a key of its entry: a longer place is in a table of it


def explain(error: ValidationError, origins: Mapping[str, str], file: Path | None) -> tuple[str, str]:
    """Return what is wrong, and what to type next.

    Parameters
    ----------
    origins
        Key -> the file or the variable that it comes from.
    """
    errors = error.errors()
    # An unknown key may be the one that is missing, misspelt.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    key = printable(".".join(str(part) for part in first["loc"] if part != "[key]"))
    in_board = first["loc"][:1] == ("boards",)
    where = str(file) if in_board else origins.get(str(first["loc"][0]) if first["loc"] else "", FILE_NAME)
    if first["type"] in ("extra_forbidden", "missing"):
        keys = _keys_beside(first["loc"]) if in_board else [*Settings.model_fields]
        problem = f"unknown key '{key}'" if first["type"] == "extra_forbidden" else f"{key} is missing"
        import difflib

        near = difflib.get_close_matches(str(first["loc"][-1]), keys, n=1)
        meant = f"did you mean {near[0]!r}? " if near and first["type"] == "extra_forbidden" else ""
        if in_board and first["type"] == "missing" and first["loc"][-1] == "class":
            meant = "an emulated board has no table here: `toolchain board emulate start CLASS --group G`; "
        return f"{where}: {problem}", f"{meant}the keys are: {', '.join(sorted(keys))}"
    said = shown_value(first["loc"], first["input"])
    problem = reason_of(first)
    if first["type"] == "string_pattern_mismatch" and (meaning := _meaning(first["loc"])):
        problem = f"wanted: {meaning}"
    is_variable = where.startswith(ENVIRONMENT_PREFIX)
    change = f"set {where} to something else, or unset it" if is_variable else f"edit {where}"
    return f"{where}: {key} = {said}: {problem}", change


def _meaning(place: tuple[int | str, ...]) -> str:
    """Return what the reference says of a key, or of a board's; empty if it is in a table of its own."""
    if place[-1] == "[key]":
        return "a board's name: up to 63 letters, digits, '_', '.' and '-', first a letter or digit"
    keys = {1: Settings.model_fields, _IN_ENTRY: _entry_keys()}.get(len(place), {})
    field = keys.get(str(place[-1]))
    return (field.description or "") if field else ""


def _keys_beside(place: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table of a board in which `place` is."""
    tables: dict[object, type[BaseModel]] = {"power": PowerCommands, "labgrid": LabgridPlace}
    if len(place) > _IN_ENTRY and place[2] in tables:
        return [*tables[place[2]].model_fields]
    return [*_entry_keys()]


def _entry_keys() -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in BoardEntry.model_fields.items()}


def shown_value(place: tuple[int | str, ...], value: object) -> str:
    """Return a wrong value for a message; what may hold a password, and a whole board, is left out."""
    of_a_board = place[:1] == ("boards",) and isinstance(value, dict)
    secret = of_a_board or bool(SECRETS.intersection(map(str, place)))
    return "…" if secret else shortened(repr(value))


_FOLDERS = tuple(
    key for key, field in Settings.model_fields.items() if field.annotation in (Path, Path | None)
)


@dataclass(frozen=True)
class Configuration:
    """The effective settings, their file, the origin of every key, and the user's boards.

    Attributes
    ----------
    skipped
        Warnings about files of other users.
    """

    settings: Settings
    file: Path | None
    origins: dict[str, str]
    boards: dict[str, BoardEntry] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


def read_configuration(start: Path, environment: dict[str, str]) -> Configuration:
    """Merge file and environment into settings.

    Raises
    ------
    UsageError
        The file belongs to another user or is not TOML, or a key or value is not allowed; the message names
        the file, the key and what is allowed.
    """
    file, skipped = find_file(start, environment)
    values = _read(file) if file else {}
    origins = {**dict.fromkeys(Settings.model_fields, "default"), **dict.fromkeys(values, str(file))}
    for key in Settings.model_fields:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if environment.get(variable):
            values[key] = environment[variable]
            origins[key] = variable
        if values.get(key) == "":  # an empty value counts as not set
            values[key] = Settings.model_fields[key].get_default()
    origins.pop("boards", None)
    try:
        tables = Boards(boards=values.pop("boards", {}))
        found = Configuration(Settings(**values), file, origins, _resolved(tables.boards, file), skipped)
    except ValidationError as error:
        raise UsageError(*explain(error, origins, file)) from error
    _check_home(found)
    return found


def _read(file: Path) -> dict[str, Any]:
    """Return the keys of a file; folders are relative to it, not to the caller."""
    try:
        values = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", f"see `ls -ld {file}`") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} cannot be read: it is not text in UTF-8", f"edit {file}") from error
    except (ValueError, RecursionError) as error:  # also a number of 5000 digits
        raise UsageError(f"{file} cannot be read: it is not TOML: {error}", f"edit {file}") from error
    for key in _FOLDERS:
        if isinstance(values.get(key), str) and values[key]:
            values[key] = str(_absolute(file, key, Path(values[key])))
    return values


def _check_home(found: Configuration) -> None:
    """Raise an error if a default folder is needed but the user has no home folder."""
    for key in ("cache_dir", "data_dir", "state_dir"):
        folder = getattr(found.settings, key)
        if found.origins[key] == "default" and not folder.is_absolute():
            raise MissingError(
                f"this user has no home folder, which {key} would be in",
                f"set HOME, or {key} in {FILE_NAME}, or {ENVIRONMENT_PREFIX}{key.upper()}",
            )


def _resolved(boards: dict[str, BoardEntry], file: Path | None) -> dict[str, BoardEntry]:
    """Make the paths of identities and of power commands absolute; in the file they are relative to it."""
    if file is None:
        return boards
    found = {}
    for name, entry in boards.items():
        changed: dict[str, Any] = {}
        if entry.identity:
            changed["identity"] = _absolute(file, f"boards.{name}.identity", entry.identity)
        if entry.power:
            changed["power"] = entry.power.resolved(partial(_absolute, file, f"boards.{name}.power"))
        found[name] = entry.model_copy(update=changed) if changed else entry
    return found


def _absolute(file: Path, key: str, path: Path) -> Path:
    try:
        return file.parent / path.expanduser()
    except RuntimeError as error:
        said = shortened(repr(str(path)))
        raise UsageError(f"{file}: {key} = {said}: there is no such home folder", f"edit {file}") from error


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return the configuration for this process's folder and environment, read once."""
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the current folder was removed", "change to another folder: cd") from error
    return read_configuration(folder, dict(os.environ))


def settings() -> Settings:
    """Return the effective settings."""
    return configuration().settings


def cache_dir() -> Path:
    """Return the folder for files that can be made again."""
    return settings().cache_dir


def data_dir() -> Path:
    """Return the folder for files that cannot be made again: the tuning records."""
    return settings().data_dir


def state_dir() -> Path:
    """Return the folder for the state of running things: emulated boards and the lab."""
    return settings().state_dir
