"""How a database looks for what the store asks: what it says of each query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolchain.records.database import Value
from toolchain.records.store import RecordStore


class Watched:
    """A database that keeps the plan of each query; all else is the database's own."""

    def __init__(self, database: Any, explain: str) -> None:
        self._database, self._explain = database, explain
        self.plans: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds, and keep how."""
        plan = self._database.rows(f"{self._explain} {query}", values)
        self.plans.append("\n".join(str(row[-1]) for row in plan))
        return self._database.rows(query, values)


def ask_everything(store: RecordStore) -> None:
    """Ask what commands ask of a store that may be large, but for what wants all of it."""
    from itertools import islice

    from toolchain.backends.table import BACKENDS
    from toolchain.records.database import Selection
    from toolchain.records.distill import used_records

    used_records(store, [build for offer in BACKENDS for build in offer.builds])
    for selection in (
        Selection(),
        Selection(since="2026-01-01"),
        Selection(boards=("local",)),
        Selection(tasks=("00ff",), kinds=("cpu",), classes=("x86_64",)),
    ):
        assert list(islice(store.newest(selection), 100))  # a second page is asked for, too
        store.count(selection)
    ((run, _last),) = store.runs()
    assert store.of_run(run, 1)
    newest = next(store.newest())
    store.bests(newest.key, (newest.kind,))
    store.measured(newest.key)
