"""Maps names of inner graphs to names in the folded graph while branches and loops are written flat."""

from __future__ import annotations


class Scope:
    """Maps the names of one graph to names in the folded graph.

    Parameters
    ----------
    outer
        The enclosing scope, whose names are visible here; None for the whole model.
    """

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the name in the folded graph; the same name if no mapping is known."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return name
