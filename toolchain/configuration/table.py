"""The base class of the tables of `toolchain.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, field_validator

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_KINDS = {
    "bool": "true or false",
    "dict": "a table",
    "float": "a number",
    "int": "a whole number",
    "model": "a table",
    "path": "a path",
    "string": "a text",
    "tuple": "a list",
}
"""What a value of the wrong type must be, by the first word of pydantic's name of the error."""


class Table(BaseModel):
    """A table of `toolchain.toml`; keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: Any) -> Any:
        words = value if isinstance(value, list | tuple) else (value,)
        if any("\0" in str(word) for word in words):  # TOML can write it; no file's name or argument may
            raise ValueError("it holds a NUL")
        return value


def reason_of(error: ErrorDetails) -> str:
    """Return what is wrong with a value, in the words of TOML instead of pydantic's."""
    kind, _, what = error["type"].partition("_")
    if kind in _KINDS and what in ("type", "parsing", "from_float", "attributes_type"):
        return f"it must be {_KINDS[kind]}"
    return error["msg"].removeprefix("Value error, ").replace("Input should be ", "it must be ")
