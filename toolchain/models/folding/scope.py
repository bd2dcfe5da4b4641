"""Names: what a name in a graph, or in one inside its nodes, stands for."""

from __future__ import annotations


class Names:
    """Every name that the folded graph has; gives new ones."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Keep `name` from being given to anything else."""
        self._taken.add(name)

    def free(self, like: str) -> str:
        """Return `like`, or a name made from it that nothing has."""
        name = like
        while name in self._taken:
            self._next[like] = self._next.get(like, 0) + 1
            name = f"{like}.{self._next[like]}"
        self._taken.add(name)
        return name


class Scope:
    """What the names of one graph stand for in the folded one.

    Parameters
    ----------
    outer
        The scope around it, whose names it sees; None for the whole model's.
    """

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the folded graph's name; an unknown one stands for itself."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return name
