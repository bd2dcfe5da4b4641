"""Opens the configured store of records, with messages about waits and skipped rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toolchain.records.distill import unreadable_warning
from toolchain.records.store import RecordStore, user_store


@contextmanager
def open_records(note: Callable[[str], None]) -> Iterator[RecordStore]:
    """Open the user's records; report waits, and at the end warn about unreadable rows."""
    with user_store(note) as store:
        try:
            yield store
        finally:
            if warning := unreadable_warning(store):
                note(f"warning: {warning}")
