"""Places on the chip for operands: what one holds already is not loaded again."""

from __future__ import annotations

from collections.abc import Hashable


class Places:
    """Places for one kind of operand.

    Parameters
    ----------
    contexts
        Pieces at work in turn.
    shared
        Whether they share the operand: its places then take turns, else each piece has its own.
    """

    def __init__(self, contexts: int, shared: bool) -> None:
        self._held: list[Hashable] = [None] * contexts
        self._shared = shared
        self._next = 0

    def take(self, context: int, operand: Hashable) -> tuple[int, bool]:
        """Return the place of an operand, and whether it must be loaded there."""
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
