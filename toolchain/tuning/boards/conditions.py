"""Reads how a device is just after a candidate was timed on it."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field

from toolchain.answers import Answer, lie, shown, understood


class Conditions(Answer):
    """Clock, temperature, and number of other processes that compute there; None if unknown."""

    clock_mhz: Annotated[float, Field(ge=0)] | None
    temperature_c: float | None
    others: Annotated[int, Field(ge=0)] | None

    def text(self) -> str | None:
        """Return them as records have them: JSON, or None if nothing is known."""
        known = self.model_dump()
        return json.dumps(known) if any(value is not None for value in known.values()) else None


def were_others_there(known: str | None) -> bool:
    """Return whether other processes computed on a device, given its conditions as records have them."""
    return known is not None and bool(json.loads(known)["others"])


def known_conditions(board: str, said: object) -> str | None:
    """Return the answer of `edge.conditions` as records have it.

    Raises
    ------
    CheckError
        It has the wrong form.
    """
    what = "the answer of edge.conditions"
    if not isinstance(said, str):
        raise lie(board, what, f"it is {shown(said)}, not text")
    return None if said == "null" else understood(Conditions, said, board, what).text()
