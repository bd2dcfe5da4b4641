"""The base class of the tables of `toolchain.toml`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


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
