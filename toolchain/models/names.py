"""New names for the tensors of a graph."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The set of names in use in a graph, for making new ones."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)
        self._last: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Mark `name` as used."""
        self._used.add(name)

    def free(self, like: str) -> str:
        """Return an unused name, `like` itself if possible, and mark it as used."""
        name = like
        while name in self._used:
            self._last[like] = self._last.get(like, 0) + 1
            name = f"{like}.{self._last[like]}"
        self._used.add(name)
        return name
