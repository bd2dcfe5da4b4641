"""A choice: an algorithm with its parameters, which a tuner selects and a record stores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self

from pydantic import TypeAdapter

from toolchain.backends.packed.machine import Loads

Order = Literal["rows", "channels"]
"""Outer parallel axis: rows of the output, or its channels (then each thread reads its own weights)."""

# The keys of a payload, with the values for algorithms that lack the knob.
_KEYS: Mapping[str, object] = {
    "blocks": 1,
    "columns": 1,
    "depth": 0,
    "flat": False,
    "order": "rows",
    "rows": 1,
    "tile": (),
}
# Keys that a payload has only if the value differs: they were added later, for devices.
_LATER: Mapping[str, object] = {"arithmetic": "fma", "group": (), "loads": "inputs"}


_NONE = object()


def knob(key: str, default: Any = MISSING) -> Any:
    """Return a field of a choice that records store under another key than the field's name."""
    return field(default=default, metadata={"key": key})


@dataclass(frozen=True)
class Choice:
    """The parameters with which one task is computed; each algorithm has a subclass.

    Attributes
    ----------
    algorithm
        Name of the algorithm.
    group
        Work items of a group along the last axes of the computed tensor, the last axis first. Empty lets the
        code generator decide; always empty on CPUs.
    loads
        Operand that a tile loads first and keeps in registers for all its products.
    """

    algorithm: ClassVar[str]
    group: tuple[int, ...] = field(default=(), kw_only=True)
    loads: Loads = field(default="inputs", kw_only=True)

    @property
    def knobs(self) -> dict[str, Any]:
        """Every key of a record's payload except the algorithm; the same keys for all algorithms."""
        own = {_key(own): getattr(self, own.name) for own in fields(self)}
        return {**_KEYS, **{key: value for key, value in own.items() if _LATER.get(key, _NONE) != value}}

    def to_json(self) -> str:
        """Return the choice as the payload of a record."""
        payload = {"algorithm": self.algorithm, **self.knobs}
        return json.dumps(payload, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_knobs(cls, knobs: Mapping[str, object]) -> Self:
        """Return the choice with these knobs, as read from a record.

        Raises
        ------
        ValueError
            The algorithm has no such knob, or the knob no such value.
        """
        own = {_key(each): each.name for each in fields(cls)}
        for key, value in knobs.items():
            if key not in own and (key not in _KEYS or json.dumps(value) != json.dumps(_KEYS[key])):
                raise ValueError(f"unknown: {key}={value}")
        named = {own[key]: value for key, value in knobs.items() if key in own}
        return TypeAdapter(cls).validate_json(json.dumps(named), strict=True)


def _key(own: Field[Any]) -> str:
    return str(own.metadata.get("key", own.name))
