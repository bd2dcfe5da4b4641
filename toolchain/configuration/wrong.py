"""Words for a wrong key or value of `toolchain.toml`: its origin, the mistake, and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.keys import ENVIRONMENT_PREFIX, SECRETS, BoardEntry, Settings
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.table import reason_of
from toolchain.foreign import printable, shortened

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
