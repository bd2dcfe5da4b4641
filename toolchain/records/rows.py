"""Records as rows of the table `records`, and back."""

from __future__ import annotations

import json
from typing import Any

from toolchain.records.key import RecordKey
from toolchain.records.record import Provenance, Record

Value = str | int | float | None
_KEY = ("workload", "triple", "cpu", "level", "threads", "board_class")
_OWN = ("function", "kind", "payload", "digest", "run_ms", "failure", "confirmed", "created")
_PROVENANCE = ("run", "board", "runtime", "tvm", "tvm_ffi", "tool", "trial", "governor", "temperature_c")
_NAMES = (*_KEY, *_OWN, *_PROVENANCE)
COLUMNS = ", ".join(_NAMES)
SELECT = f"SELECT {COLUMNS} FROM records"  # noqa: S608  # our own constants
INSERT = f"INSERT INTO records ({COLUMNS}, best_ms) VALUES ({', '.join('?' * (len(_NAMES) + 1))})"  # noqa: S608


def key_values(key: RecordKey) -> tuple[Value, ...]:
    """Return the key's columns in their order."""
    return tuple(getattr(key, name) for name in _KEY)


def values(record: Record) -> tuple[Value, ...]:
    """Return what `INSERT` takes."""
    own = [getattr(record, name) for name in _OWN]
    own[_OWN.index("run_ms")] = json.dumps(record.run_ms)
    provenance = (getattr(record.provenance, name) for name in _PROVENANCE)
    return (*key_values(record.key), *own, *provenance, record.best_ms)


def record(row: tuple[Any, ...]) -> Record:
    """Return the record of a row that `SELECT` gave."""
    fields = dict(zip(_NAMES, row, strict=True))
    fields["run_ms"] = tuple(json.loads(fields["run_ms"]))
    fields["confirmed"] = bool(fields["confirmed"])
    return Record(
        key=RecordKey(**{name: fields[name] for name in _KEY}),
        provenance=Provenance(**{name: fields[name] for name in _PROVENANCE}),
        **{name: fields[name] for name in _OWN},
    )
