"""Maps names of inner graphs to names in the folded graph while branches and loops are written flat."""

from __future__ import annotations


class Names:
    """The set of names in use in the folded graph, for making new ones."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Mark `name` as used."""
        self._taken.add(name)

    def free(self, like: str) -> str:
        """Return an unused name, `like` itself if possible, and mark it as used."""
        name = like
        while name in self._taken:
            self._next[like] = self._next.get(like, 0) + 1
            name = f"{like}.{self._next[like]}"
        self._taken.add(name)
        return name


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
