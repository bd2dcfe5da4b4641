"""The configured records, for commands: what is waited for and what was skipped there is said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolchain.cli.output import note

if TYPE_CHECKING:
    from toolchain.records.store import RecordStore


@contextmanager
def user_store() -> Iterator[RecordStore]:
    """Open the configured store; tell what is waited for, and warn in the end of rows that are unreadable."""
    from toolchain.records import store as records
    from toolchain.records.repair import skipped

    with records.user_store(note) as store:
        try:
            yield store
        finally:
            if warning := skipped(store):
                note(f"warning: {warning}")
