"""What a record was measured for."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


class Function(NamedTuple):
    """A function as the store keeps it, in the order of the table.

    Parameters
    ----------
    id
        `function_id` of its definition: the SHA-256.
    workload
        Hash of what it computes; several functions may have the same.
    definition
        What is computed, as a text of a backend's own.
    """

    id: str
    workload: str
    name: str
    definition: str


def function_id(definition: str) -> str:
    """Return the id of the function with this definition."""
    return sha256(definition.encode()).hexdigest()
