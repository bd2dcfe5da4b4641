"""Records as a text file with one JSON document per line; docs/reference/records.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toolchain import answers
from toolchain.errors import UsageError
from toolchain.files.atomic import replacing
from toolchain.files.plain import open_plain
from toolchain.foreign import first_line
from toolchain.quantities import counted
from toolchain.records import rows
from toolchain.records.columns import NAMES
from toolchain.records.function import Function, function_id
from toolchain.records.record import Record
from toolchain.records.tables import ADDED

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
    wanted = {record.function for record in chosen}
    defined = [function for function in functions if function.id in wanted]
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
        found = read_line(path, number, line)
        if isinstance(found, Function):
            functions[found.id] = found
        elif found.function in functions:
            records.append(found)
        else:
            lost = ValueError(f"no line before it has function {found.function}")
            raise _damaged(path, number, line, lost)
    promised, there = (header["functions"], header["records"]), (len(functions), len(records))
    if promised != there:
        raise UsageError(
            f"{path}: line 1 promises {counted(promised[0], 'function')} and "
            f"{counted(promised[1], 'record')}, but the file has {there[0]} and {there[1]}: "
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
    names = dict(zip(NAMES, rows.values(record), strict=False))  # best_ms is left out
    flags = {name: bool(names[name]) for name in _FLAGS}
    known = {name: value for name, value in names.items() if name not in _MAY_LACK or value is not None}
    return {**known, **flags, "run_ms": record.run_ms}


def _record(fields: Any) -> Record:
    if isinstance(fields, dict):
        fields = {**dict.fromkeys(_MAY_LACK), **fields}
    _check_fields(fields, NAMES)
    if not isinstance(fields["run_ms"], list):
        raise ValueError("run_ms must be a list of numbers")
    record = rows.from_fields(fields, strict=True)
    try:
        rows.TIMES.validate_python(record.run_ms)
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
