"""Opens the configured store of records for commands, with messages about waits and skipped rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli.output import note

if TYPE_CHECKING:
    from toolchain.records.store import RecordStore


@contextmanager
def user_store_with_warnings() -> Iterator[RecordStore]:
    """Open the configured store; report waits, and at the end warn about unreadable rows."""
    from toolchain.records import store as records
    from toolchain.records.repair import skipped

    with records.user_store(note) as store:
        try:
            yield store
        finally:
            if warning := skipped(store):
                note(f"warning: {warning}")
