"""Assigns places on the chip to operands, so that an operand on the chip is not loaded again."""

from __future__ import annotations

from collections.abc import Hashable


class Places:
    """The places of one kind of operand.

    Parameters
    ----------
    contexts
        Number of pieces that are computed alternately, and of places.
    shared
        Whether the pieces share the operand: then its places are used alternately, else each piece has one.
    """

    def __init__(self, contexts: int, shared: bool) -> None:
        self._held: list[Hashable] = [None] * contexts
        self._shared = shared
        self._next = 0

    def take(self, context: int, operand: Hashable) -> tuple[int, bool]:
        """Assign a place to an operand; return the place, and whether the operand must be loaded there."""
        if not self._shared:
            place = context
        elif operand in self._held:
            return self._held.index(operand), False
        else:
            place = self._next
            self._next = (place + 1) % len(self._held)
        fresh = self._held[place] != operand
        self._held[place] = operand
        return place, fresh
