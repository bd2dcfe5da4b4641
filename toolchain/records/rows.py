"""Conversion between records and rows of the table `records`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from toolchain import answers
from toolchain.errors import CheckError
from toolchain.records.columns import IDENTITY, KEY, NAMES, OWN, PROVENANCE, Value, key_values, possible_ms
from toolchain.records.record import Record


def _possible(ms: float) -> float:
    if not possible_ms(ms):
        raise ValueError(f"{ms} ms is not a plausible time")
    return ms


TIMES = TypeAdapter(tuple[Annotated[float, Field(allow_inf_nan=False), AfterValidator(_possible)], ...])
_FIRST, _LAST = 1970, 9000  # years, with room for what is computed from them
_RECORD = TypeAdapter(Record)  # SQLite stores any value in any column, such as text for a number


def values(record: Record) -> tuple[Value, ...]:
    """Return the values of a record for `INSERT`.

    Raises
    ------
    CheckError
        Its times are impossible: such a record might be preferred to all others forever.
    """
    if record.failure is None and not (record.run_ms and all(map(possible_ms, record.run_ms))):
        raise CheckError(
            f"board {record.provenance.board} reported an impossible time: {record.run_ms} ms; "
            "no record was stored",
            f"look at the board: `toolchain board status {record.provenance.board}`",
        )
    own = [getattr(record, name) for name in OWN]
    own[OWN.index("run_ms")] = json.dumps([float(ms) for ms in record.run_ms])
    own += [getattr(record.provenance, name) for name in PROVENANCE]
    for_sql = (int(value) if isinstance(value, bool) else value for value in own)
    return (*key_values(record.key), *for_sql, record.best_ms)


def values_if_new(record: Record) -> tuple[Value, ...]:
    """Return the values of a record for `INSERT_NEW`; errors as of `values`."""
    row = values(record)
    named = dict(zip(NAMES, row, strict=False))  # the row has best_ms besides
    return (*row, *(named[name] for name in IDENTITY))


class UnreadableRowError(Exception):
    """A row that cannot be converted into a record."""


def record(row: Sequence[Any]) -> Record:
    """Return the record in a row with the columns `NAMES`.

    Raises
    ------
    UnreadableRowError
        A column has a value that `INSERT` never writes; the message names it.
    """
    fields = dict(zip(NAMES, row, strict=True))
    try:
        fields["run_ms"] = TIMES.validate_json(fields["run_ms"], strict=True)
    except ValidationError as error:
        raise UnreadableRowError(f"run_ms: {answers.problem(error)}") from error
    for name in ("confirmed", "modelled"):  # SQLite has no booleans
        fields[name] = bool(fields[name])
    try:
        return from_fields(fields)
    except ValidationError as error:
        raise UnreadableRowError(answers.problem(error)) from error
    except ValueError as error:
        raise UnreadableRowError(str(error)) from error


def from_fields(fields: dict[str, Any], *, strict: bool = False) -> Record:
    """Return the record with these values of the columns.

    Parameters
    ----------
    strict
        Every value must have exactly the column's type: an integer is no substitute for a float.

    Raises
    ------
    ValueError
        A value is not valid for its column.
    """
    if (fields["failure"] is None) != bool(fields["run_ms"]):
        raise ValueError("a record must have either times or a failure")
    temperature = fields["temperature_c"]  # the one other number that need not be whole
    if isinstance(temperature, float) and not isfinite(temperature):
        raise ValueError(f"temperature_c is {temperature}, which is no number")
    if not isinstance(fields["created"], str):
        raise ValueError(f"created is {fields['created']}, which is no text")
    created = datetime.fromisoformat(fields["created"])
    if not _FIRST <= created.year <= _LAST:
        raise ValueError(f"created is in the year {created.year}")
    if created.tzinfo is None:
        raise ValueError(f"created is {fields['created']}, without a time zone")
    document = {
        "key": {name: fields[name] for name in KEY},
        "provenance": {name: fields[name] for name in PROVENANCE},
        **{name: fields[name] for name in OWN},
    }
    if strict:  # strict validation of Python values would demand objects of our classes
        return _RECORD.validate_json(json.dumps(document), strict=True)
    return _RECORD.validate_python(document)
