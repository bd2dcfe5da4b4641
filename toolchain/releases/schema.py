"""Types of the fields of trusts and statements."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr

from toolchain.releases.strict_json import LARGEST


class Strict(BaseModel):
    """Base class of signed objects: exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must not have control characters")
    return text


Hex = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
"""32 bytes in hexadecimal digits."""

Word = Annotated[StrictStr, Field(min_length=1, max_length=256), AfterValidator(_printable)]
"""A name without control characters."""

Count = Annotated[StrictInt, Field(ge=0, le=LARGEST)]
"""A whole number, which JSON readers keep exactly."""

Moment = Annotated[StrictInt, Field(ge=1, le=LARGEST)]
"""Seconds since 1970."""
