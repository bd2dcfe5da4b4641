"""The functions that records were measured for."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple


class Function(NamedTuple):
    """A stored function: the columns of table `functions`, in their order.

    Parameters
    ----------
    id
        `function_id` of the definition.
    workload
        Hash of what the function computes; several functions may share it.
    definition
        What is computed, as text in the backend's own format.
    """

    id: str
    workload: str
    name: str
    definition: str


def function_id(definition: str) -> str:
    """Return the id of the function with this definition: its SHA-256."""
    return sha256(definition.encode()).hexdigest()
