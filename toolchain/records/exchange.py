"""Records as a text file with one JSON document per line; docs/reference/records.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from toolchain import answers
from toolchain.errors import CheckError, UsageError
from toolchain.files.atomic import replacing
from toolchain.files.plain import open_plain
from toolchain.foreign import first_line
from toolchain.quantities import counted
from toolchain.records.database import (
    ADDED,
    IDENTITY,
    KEY,
    NAMES,
    OWN,
    PROVENANCE,
    Value,
    key_values,
    possible_ms,
)
from toolchain.records.record import Record

# The functions that records were measured for.


class Function(NamedTuple):
    """A stored function: the columns of table `functions`, in their order.

    Parameters
    ----------
    id
        `function_id` of the definition.
    workload
        Hash of what the function computes; several functions may share it.
    definition
        What is computed, as text in the backend's own format.
    """

    id: str
    workload: str
    name: str
    definition: str


def function_id(definition: str) -> str:
    """Return the id of the function with this definition: its SHA-256."""
    return sha256(definition.encode()).hexdigest()


# Conversion between records and rows of the table `records`.


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
    columns = [getattr(record, name) for name in OWN]
    columns[OWN.index("run_ms")] = json.dumps([float(ms) for ms in record.run_ms])
    columns += [getattr(record.provenance, name) for name in PROVENANCE]
    for_sql = (int(value) if isinstance(value, bool) else value for value in columns)
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


FORMAT = "edge-toolchain records"
VERSION = 1
_LONGEST_LINE = 64 * 2**20  # bytes; a definition of TensorIR has some 10 KB
_LARGEST = 2**53  # the largest integer that every JSON reader represents exactly
_AHEAD = timedelta(days=1)  # how far another machine's clock may be ahead
_FLAGS = ("confirmed", "modelled")
_MAY_LACK = frozenset(ADDED)
"""Fields that are written only if they have a value: earlier programs refuse what they do not know."""


def write_records(path: Path, functions: Iterable[Function], records: Iterable[Record]) -> tuple[int, int]:
    """Write records and their functions atomically; return the numbers of functions and of records.

    Parameters
    ----------
    functions
        Functions without a record are left out.
    """
    chosen = list(records)
    referenced = {record.function for record in chosen}
    defined = [function for function in functions if function.id in referenced]
    header = {"format": FORMAT, "version": VERSION, "functions": len(defined), "records": len(chosen)}
    lines: list[dict[str, Any]] = [header]
    lines += [{"function": function._asdict()} for function in defined]
    lines += [{"record": _fields(record)} for record in chosen]
    with replacing(path) as temporary, temporary.open("w", encoding="ascii") as file:
        file.writelines(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    return len(defined), len(chosen)


def read_records(path: Path) -> tuple[list[Function], list[Record]]:
    """Return the functions and records in a file that `write_records` wrote.

    Raises
    ------
    UsageError
        The file cannot be read, has another format or version, is truncated, or has a damaged line. The
        message says which.
    """
    functions: dict[str, Function] = {}
    records: list[Record] = []
    lines = _lines(path)
    header = _header(path, next(lines, b""))
    for number, line in enumerate(lines, 2):
        content = read_line(path, number, line)
        if isinstance(content, Function):
            functions[content.id] = content
        elif content.function in functions:
            records.append(content)
        else:
            lost = ValueError(f"no line before it has function {content.function}")
            raise _damaged(path, number, line, lost)
    promised, actual = (header["functions"], header["records"]), (len(functions), len(records))
    if promised != actual:
        raise UsageError(
            f"{path}: line 1 promises {counted(promised[0], 'function')} and "
            f"{counted(promised[1], 'record')}, but the file has {actual[0]} and {actual[1]}: "
            "it was truncated, or lines were lost; nothing was imported",
            f"export it again, or correct line 1 of {path} if lines were left out on purpose",
        )
    return list(functions.values()), records


def read_line(path: Path, number: int, line: bytes) -> Function | Record:
    """Return the function or record on a line of a file.

    Raises
    ------
    UsageError
        The line is damaged.
    """
    try:
        document = _parsed(line)
        if document.keys() == {"function"}:
            return _function(document["function"])
        if document.keys() == {"record"}:
            return _record(document["record"])
        raise ValueError("it is neither a record nor a function")
    except ValueError as error:
        raise _damaged(path, number, line, error) from error


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_plain(path) as file:
            while line := file.readline(_LONGEST_LINE):
                yield line
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "name a file of records") from error


def _header(path: Path, line: bytes) -> dict[str, Any]:
    foreign = UsageError(
        f"{path} is not a file of records: its first line does not say {FORMAT!r}",
        "`toolchain records export FILE` writes one",
    )
    try:
        header = _parsed(line)
    except ValueError as error:
        raise foreign from error
    if header.get("format") != FORMAT:
        raise foreign
    version = header.get("version")
    if version != VERSION:
        raise UsageError(
            f"{path}, line 1: the format has version {answers.shown(version)}, but this toolchain reads "
            f"version {VERSION}; nothing was imported",
            "use the toolchain that wrote it, or a newer one",
        )
    counts = header.get("functions"), header.get("records")
    if not all(type(count) is int for count in counts):
        raise _damaged(path, 1, line, ValueError("it does not say how many functions and records there are"))
    return header


def _damaged(path: Path, number: int, line: bytes, error: ValueError) -> UsageError:
    what = answers.problem(error) if isinstance(error, ValidationError) else first_line(error)
    if not line.endswith(b"\n"):
        what = "the file ends in the middle of it" if len(line) < _LONGEST_LINE else "it is too long"
    return UsageError(
        f"{path}, line {number} is damaged: {what}; nothing was imported from the file", "export it again"
    )


def _parsed(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ValueError("it does not end with a newline")
    try:
        document = json.loads(line, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:  # its line numbers start at this line
        raise ValueError(f"invalid JSON at character {error.pos + 1}: {error.msg}") from error
    if not isinstance(document, dict):
        raise ValueError("it is not a JSON object")
    return document


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is not a JSON number")


def _function(fields: Any) -> Function:
    _check_fields(fields, Function._fields)
    if not all(isinstance(text, str) for text in fields.values()):
        raise ValueError("every field of a function must be text")
    function = Function(**fields)
    if function_id(function.definition) != function.id:
        raise ValueError(f"the definition does not match the function's id {function.id}")
    return function


def _fields(record: Record) -> dict[str, Any]:
    names = dict(zip(NAMES, values(record), strict=False))  # best_ms is left out
    flags = {name: bool(names[name]) for name in _FLAGS}
    known = {name: value for name, value in names.items() if name not in _MAY_LACK or value is not None}
    return {**known, **flags, "run_ms": record.run_ms}


def _record(fields: Any) -> Record:
    if isinstance(fields, dict):
        fields = {**dict.fromkeys(_MAY_LACK), **fields}
    _check_fields(fields, NAMES)
    if not isinstance(fields["run_ms"], list):
        raise ValueError("run_ms must be a list of numbers")
    record = from_fields(fields, strict=True)
    try:
        TIMES.validate_python(record.run_ms)
    except ValidationError as error:
        raise ValueError(f"run_ms: {answers.problem(error)}") from error
    if record.key.threads < 1:
        raise ValueError(f"threads is {record.key.threads}, must be at least 1")
    return replace(record, created=_in_utc(record.created))


def _in_utc(created: str) -> str:
    """Return a time as the store itself writes it: the newest of several is found by comparing texts."""
    time = datetime.fromisoformat(created)
    if time > datetime.now(UTC) + _AHEAD:
        raise ValueError(f"created is {created}, which is still to come")
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _check_fields(fields: Any, names: Iterable[str]) -> None:
    if not isinstance(fields, dict):
        raise ValueError("it must be a JSON object with fields")
    if fields.keys() != set(names):
        odd = sorted(fields.keys() ^ set(names))
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] in names else 'an unknown field'}")
    for name, value in fields.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"{name} is too large")
        if isinstance(value, str) and "\0" in value:  # no database can store NUL in a text
            raise ValueError(f"{name} contains a NUL character")
        if isinstance(value, str):
            value.encode()  # fails for a lone surrogate
