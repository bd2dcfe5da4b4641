"""Records as rows of the table `records`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from toolchain import answers
from toolchain.errors import CheckError
from toolchain.records.columns import IDENTITY, KEY, NAMES, OWN, PROVENANCE, Value, key_values, possible_ms
from toolchain.records.record import Record


def _possible(ms: float) -> float:
    if not possible_ms(ms):
        raise ValueError(f"{ms} ms cannot be right")
    return ms


TIMES = TypeAdapter(tuple[Annotated[float, Field(allow_inf_nan=False), AfterValidator(_possible)], ...])
_RECORD = TypeAdapter(Record)  # SQLite keeps whatever it is given, such as a text for a number


def values(record: Record) -> tuple[Value, ...]:
    """Return what `INSERT` takes.

    Raises
    ------
    CheckError
        Its times are none: a record of them would stand before all others for ever.
    """
    if record.failure is None and not (record.run_ms and all(map(possible_ms, record.run_ms))):
        raise CheckError(
            f"board {record.provenance.board}: {record.run_ms} ms cannot be right; no record was made of it",
            f"look at the board: `toolchain board status {record.provenance.board}`",
        )
    own = [getattr(record, name) for name in OWN]
    own[OWN.index("run_ms")] = json.dumps([float(ms) for ms in record.run_ms])
    own += [getattr(record.provenance, name) for name in PROVENANCE]
    for_sql = (int(value) if isinstance(value, bool) else value for value in own)
    return (*key_values(record.key), *for_sql, record.best_ms)


def values_if_new(record: Record) -> tuple[Value, ...]:
    """Return what `INSERT_NEW` takes; errors as of `values`."""
    row = values(record)
    named = dict(zip(NAMES, row, strict=False))  # best_ms is one more
    return (*row, *(named[name] for name in IDENTITY))


class UnreadableError(Exception):
    """A row of which no record can be made."""


def record(row: Sequence[Any]) -> Record:
    """Return the record whose columns `NAMES` a row holds.

    Raises
    ------
    UnreadableError
        A column of it is not what `INSERT` writes; says which.
    """
    fields = dict(zip(NAMES, row, strict=True))
    try:
        fields["run_ms"] = TIMES.validate_json(fields["run_ms"], strict=True)
    except ValidationError as error:
        raise UnreadableError(f"run_ms: {answers.problem(error)}") from error
    for name in ("confirmed", "modelled"):  # SQLite has no truth values
        fields[name] = bool(fields[name])
    try:
        return from_fields(fields)
    except ValidationError as error:
        raise UnreadableError(answers.problem(error)) from error
    except ValueError as error:
        raise UnreadableError(str(error)) from error


def from_fields(fields: dict[str, Any], *, strict: bool = False) -> Record:
    """Return the record whose columns are `fields`.

    Parameters
    ----------
    strict
        No column may be of another type: not even a number of another kind.

    Raises
    ------
    ValueError
        One of them is not what a record has.
    """
    if (fields["failure"] is None) != bool(fields["run_ms"]):
        raise ValueError("a record has times, or a failure")
    document = {
        "key": {name: fields[name] for name in KEY},
        "provenance": {name: fields[name] for name in PROVENANCE},
        **{name: fields[name] for name in OWN},
    }
    if strict:  # of Python's values that would mean: objects of our classes
        return _RECORD.validate_json(json.dumps(document), strict=True)
    return _RECORD.validate_python(document)
