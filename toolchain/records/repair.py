"""Removes unreadable records from a store."""

from __future__ import annotations

from toolchain.quantities import counted
from toolchain.records.store import RecordStore

_NAMED = 3  # rows in a warning


def skipped(store: RecordStore) -> str | None:
    """Return the warning about unreadable rows that a command skipped; None if there were none."""
    rows = store.unreadable
    if not rows:
        return None
    count = counted(len(rows), "unreadable record")
    named = "; ".join(f"row {number}: {problem}" for number, problem in list(rows.items())[:_NAMED])
    more = f"; and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"skipped {count} of {store.name}: {named}{more}; `toolchain records repair` removes them"


def repair(store: RecordStore, *, dry_run: bool = False) -> dict[int, str]:
    """Remove unreadable records; return what is wrong with each, by its row.

    Parameters
    ----------
    dry_run
        Change nothing.

    Raises
    ------
    ToolchainError
        The database refused; nothing was removed.
    """
    store.look_at_all()
    if store.unreadable and not dry_run:
        store.remove(list(store.unreadable))
    return store.unreadable
