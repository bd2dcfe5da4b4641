"""Write a store of records as the last toolchain with schema version 1 wrote them.

tests/data/records/version-1.sqlite is made in a checkout of 147bb01, with its own environment:

    .venv/bin/python make_records_1.py version-1.sqlite
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolchain.records import schema  # type: ignore[attr-defined] # in that checkout
from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.records.store import RecordStore

KEY = RecordKey("00ff00ff00ff00ff", "x86_64-unknown-linux-gnu", "x86-64-v3", "x86-64-v3", 4, "x86_64")
OTHER = replace(KEY, workload="1234123412341234", cpu="cortex-a72", board_class="rk3399+emulated")
PROVENANCE = Provenance("run-1", "local", "f00d", "0.27", "0.1.14", "0.1.0", 3, "performance", 51.5)
CREATED = "2026-01-01T00:00:00.000+00:00"


def choice(algorithm: str, columns: int) -> str:
    """Return a choice of that version, as its payload."""
    fields = {
        "algorithm": algorithm,
        "blocks": 2,
        "columns": columns,
        "rows": 1,
        "tile": [4, 4] if algorithm == "winograd" else [],
        "order": "rows",
        "flat": False,
        "depth": 0,
    }
    return json.dumps(fields, separators=(",", ":"), sort_keys=True)


def packed(kind: str, payload: str, ms: float) -> Record:
    """Return a record of generated code."""
    digest = hashlib.sha256(f"{kind} {payload}".encode()).hexdigest()
    return Record(KEY, "", kind, payload, digest, PROVENANCE, (ms, ms), created=CREATED)


def records() -> list[Record]:
    """Return one run with winograd, one without it after that, and one of MetaSchedule on another board."""
    failed: dict[str, Any] = {"run_ms": (), "failure": "timeout"}
    payload = '{"trace":[[],[]],"arguments":[]}'
    trace = Record(OTHER, "", "metaschedule", payload, "t1", PROVENANCE, (7.5,), created=CREATED)
    return [
        packed("cpu", choice("direct", 4), 3.0),
        replace(packed("cpu", choice("direct", 6), 1.0), **failed),
        replace(packed("cpu", choice("direct", 8), 1.0), run_ms=(), failure="upload"),
        packed("cpu", choice("winograd", 4), 0.9),
        replace(packed("cpu", choice("winograd", 5), 1.0), confirmed=True),
        packed("cpu-direct", choice("direct", 4), 2.9),
        packed("cpu-direct", choice("direct", 5), 1.9),
        replace(packed("cpu-direct", choice("direct", 7), 2.0), confirmed=True),
        replace(packed("cpu-direct", choice("direct", 9), 1.0), **failed),
        trace,
        replace(trace, kind="default", payload="", digest="default", run_ms=(6.5,), confirmed=True),
    ]


def main(path: Path) -> None:
    """Write the file, small."""
    if schema.VERSION != 1:
        sys.exit("this is written by the version before: see above")
    with RecordStore(path) as store:
        functions = {
            KEY: store.add_function(KEY.workload, "fused_conv2d", '{"function":"ü"}'),
            OTHER: store.add_function(OTHER.workload, "fused_matmul", '{"function":2}'),
        }
        for record in records():
            store.add(replace(record, function=functions[record.key]))
    db = sqlite3.connect(path)
    for statement in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):
        db.execute(statement)
    db.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
