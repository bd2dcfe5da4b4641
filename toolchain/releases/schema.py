"""Types of the fields of trusts and statements."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from toolchain.releases.strict_json import LARGEST

_MOST_WORD = 256  # bytes


class Strict(BaseModel):
    """Base class of signed objects: exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _plain(text: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("it must not have control characters")
    if not 1 <= len(text.encode()) <= _MOST_WORD:
        raise ValueError(f"it must have 1 to {_MOST_WORD} bytes")
    return text


Hex = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in hexadecimal digits."""

Word = Annotated[StrictStr, AfterValidator(_plain)]
"""A name of 1 to 256 bytes without control characters."""

Count = Annotated[StrictInt, Field(ge=0, le=LARGEST)]
"""A whole number, which JSON readers keep exactly."""

Moment = Annotated[StrictInt, Field(ge=1, le=LARGEST)]
"""Seconds since 1970."""
