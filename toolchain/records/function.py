"""What a record was measured for."""

from __future__ import annotations

from typing import NamedTuple


class Function(NamedTuple):
    """A function as the store keeps it, in the order of the table.

    Parameters
    ----------
    id
        The SHA-256 of its definition.
    workload
        Hash of what it computes; several functions may have the same.
    definition
        What is computed, as a text of a backend's own.
    """

    id: str
    workload: str
    name: str
    definition: str
