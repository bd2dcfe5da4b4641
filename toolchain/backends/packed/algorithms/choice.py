"""How one function is computed: what a tuner chooses and a record keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from toolchain.backends.packed.machine import Loads

Order = Literal["rows", "channels"]
"""What runs in parallel first: rows of the output, or its channels (each thread reads its own weights)."""

# The keys of a payload, and what they say where an algorithm has no such knob.
_KEYS: Mapping[str, object] = {
    "blocks": 1,
    "columns": 1,
    "depth": 0,
    "flat": False,
    "order": "rows",
    "rows": 1,
    "tile": (),
}
# Those that payloads have only where they say something else: they came later, for devices.
_LATER: Mapping[str, object] = {"group": (), "loads": "inputs"}


_NONE = object()


def knob(key: str, default: Any = MISSING) -> Any:
    """Return a field of a choice that a record keeps under another key than its name."""
    return field(default=default, metadata={"key": key})


@dataclass(frozen=True)
class Choice:
    """How one task is computed; each algorithm has a type of its own.

    Attributes
    ----------
    algorithm
        The algorithm's name.
    group
        Work items of a group along the last axes of what is computed, the last one first; empty: as it suits,
        and on CPUs, which have none.
    loads
        What a tile loads first, and keeps for all its products.
    """

    algorithm: ClassVar[str]
    group: tuple[int, ...] = field(default=(), kw_only=True)
    loads: Loads = field(default="inputs", kw_only=True)

    @property
    def knobs(self) -> dict[str, Any]:
        """Every key of a record's payload but the algorithm, the same for all algorithms."""
        own = {_key(own): getattr(self, own.name) for own in fields(self)}
        return {**_KEYS, **{key: value for key, value in own.items() if _LATER.get(key, _NONE) != value}}

    def to_json(self) -> str:
        """Return the choice as a record's payload."""
        payload = {"algorithm": self.algorithm, **self.knobs}
        return json.dumps(payload, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, object]) -> Self:
        """Return the choice that was written with these knobs.

        Raises
        ------
        ValueError
            The algorithm has no such knob, or no such value of it.
        """
        own = {_key(each): each.name for each in fields(cls)}
        for key, value in knobs.items():
            if key not in own and (key not in _KEYS or json.dumps(value) != json.dumps(_KEYS[key])):
                raise ValueError(f"unknown: {key}={value}")
        named = {own[key]: value for key, value in knobs.items() if key in own}
        return TypeAdapter(cls).validate_json(json.dumps(named), strict=True)


def _key(own: Field[Any]) -> str:
    return str(own.metadata.get("key", own.name))
