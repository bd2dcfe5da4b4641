"""Names while branches and loops are written flat: what a name of an inner graph is called outside."""

from __future__ import annotations


class Names:
    """The names that the folded graph uses, so that new ones can be told from them."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Mark `name` as used."""
        self._taken.add(name)

    def free(self, like: str) -> str:
        """Return `like`, or a name made from it that is not used yet, and mark it as used."""
        name = like
        while name in self._taken:
            self._next[like] = self._next.get(like, 0) + 1
            name = f"{like}.{self._next[like]}"
        self._taken.add(name)
        return name


class Scope:
    """The names of one graph, each with its name in the folded one.

    Parameters
    ----------
    outer
        The scope around it, whose names it sees; None for the whole model's.
    """

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.names: dict[str, str] = {}

    def find(self, name: str) -> str:
        """Return the name in the folded graph; the same name where nothing else is known."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return name
