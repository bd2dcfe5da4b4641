"""Records to test with."""

from __future__ import annotations

from dataclasses import replace

from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.records.store import RecordStore

KEY = RecordKey("00ff00ff00ff00ff", "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3", 4, "x86_64")
KINDS = ("metaschedule", "default")
PROVENANCE = Provenance("run-1", "local", "f00d", "0.27", "0.1.14", "0.1.0", 3, "performance", 51.5)


def put(store: RecordStore, ms: float, key: RecordKey = KEY, **changes: object) -> Record:
    """Add a record of `ms` and return it."""
    function = store.add_function(key.workload, "matmul", "{}")
    record = Record(key, function, "metaschedule", "{}", f"digest-{ms}", PROVENANCE, (ms,))
    record = replace(record, **changes)
    store.add(record)
    return record
