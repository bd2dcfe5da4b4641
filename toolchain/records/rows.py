"""Records as rows of the table `records`, and back."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from toolchain.errors import CheckError
from toolchain.records.key import RecordKey
from toolchain.records.record import Record

_LONGEST_MS = 3.2e10  # a year
_TIMES = TypeAdapter(tuple[Annotated[float, Field(gt=0, lt=_LONGEST_MS)], ...])
_RECORD = TypeAdapter(Record)  # SQLite keeps whatever it is given, such as a text for a number
Value = str | int | float | None
KEY = ("workload", "triple", "cpu", "level", "threads", "board_class", "device")
_OWN = ("function", "kind", "payload", "digest", "run_ms", "failure", "confirmed", "created")
_PROVENANCE = (
    *("run", "board", "runtime", "tvm", "tvm_ffi", "tool", "trial"),
    *("governor", "temperature_c", "excluded", "modelled"),
)
_NAMES = (*KEY, *_OWN, *_PROVENANCE)
COLUMNS = ", ".join(_NAMES)
SELECT = f"SELECT {COLUMNS} FROM records"  # noqa: S608  # our own constants
INSERT = f"INSERT INTO records ({COLUMNS}, best_ms) VALUES ({', '.join('?' * (len(_NAMES) + 1))})"  # noqa: S608
# Earlier versions kept whatever a board said; such times are left alone.
POSSIBLE = f"(best_ms IS NULL OR (best_ms > 0 AND best_ms < {_LONGEST_MS}))"


def key_values(key: RecordKey) -> tuple[Value, ...]:
    """Return the key's columns in their order."""
    return tuple(getattr(key, name) for name in KEY)


def values(record: Record) -> tuple[Value, ...]:
    """Return what `INSERT` takes.

    Raises
    ------
    CheckError
        Its times are none: a record of them would stand before all others for ever.
    """
    if record.failure is None and not (record.run_ms and all(0 < ms < _LONGEST_MS for ms in record.run_ms)):
        raise CheckError(
            f"board {record.provenance.board}: {record.run_ms} ms cannot be right; no record was made of it",
            f"look at the board: `toolchain board status {record.provenance.board}`",
        )
    own = [getattr(record, name) for name in _OWN]
    own[_OWN.index("run_ms")] = json.dumps(record.run_ms)
    provenance = (getattr(record.provenance, name) for name in _PROVENANCE)
    return (*key_values(record.key), *own, *provenance, record.best_ms)


def record(row: tuple[Any, ...]) -> Record:
    """Return the record of a row that `SELECT` gave.

    Raises
    ------
    ValueError
        A column of it is not what `INSERT` writes.
    """
    fields = dict(zip(_NAMES, row, strict=True))
    fields["run_ms"] = _TIMES.validate_json(fields["run_ms"], strict=True)
    if (fields["failure"] is None) != bool(fields["run_ms"]):
        raise ValueError("a record has times, or a failure")
    for name in ("confirmed", "modelled"):  # SQLite has no truth values
        fields[name] = bool(fields[name])
    return _RECORD.validate_python(
        {
            "key": {name: fields[name] for name in KEY},
            "provenance": {name: fields[name] for name in _PROVENANCE},
            **{name: fields[name] for name in _OWN},
        }
    )
