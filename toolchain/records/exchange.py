"""Records as a text file: one JSON document a line; docs/reference/records.md says what stands in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from toolchain import answers
from toolchain.errors import UsageError
from toolchain.files.atomic import replacing
from toolchain.files.plain import open_plain
from toolchain.foreign import first_line
from toolchain.records import rows
from toolchain.records.columns import NAMES
from toolchain.records.function import Function, function_id
from toolchain.records.record import Record

FORMAT = "edge-toolchain records"
VERSION = 1
_LONGEST_LINE = 64 * 2**20  # bytes; a definition of TensorIR has some 10 KB
_LARGEST = 2**53  # of a whole number: every program that reads JSON can keep it
_FLAGS = ("confirmed", "modelled")


def write_records(path: Path, functions: Iterable[Function], records: Iterable[Record]) -> tuple[int, int]:
    """Write records and the functions they are of, whole or not at all; return how many of both.

    Parameters
    ----------
    functions
        Those that no record is of are left out.
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
    """Return what `write_records` wrote.

    Raises
    ------
    UsageError
        The file cannot be read, is none of records, of another version, cut, or a line of it is damaged;
        the message says which.
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
            lost = ValueError(f"there is no function {found.function} on a line before")
            raise _damaged(path, number, line, lost)
    promised, there = (header["functions"], header["records"]), (len(functions), len(records))
    if promised != there:
        raise UsageError(
            f"{path}: line 1 promises {promised[0]} functions and {promised[1]} records, there are "
            f"{there[0]} and {there[1]}: the file was cut, or lines were lost; nothing was taken from it",
            f"export it again, or correct line 1 of {path} if lines were left out on purpose",
        )
    return list(functions.values()), records


def read_line(path: Path, number: int, line: bytes) -> Function | Record:
    """Return what stands on a line of a file.

    Raises
    ------
    UsageError
        It is damaged.
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
            f"{path}, line 1: records of version {answers.shown(version)}; this toolchain reads version "
            f"{VERSION}; nothing was taken from it",
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
        f"{path}, line {number} is damaged: {what}; nothing was taken from the file", "export it again"
    )


def _parsed(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ValueError("it has no end")
    try:
        document = json.loads(line, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:  # it counts lines from this one
        raise ValueError(f"at character {error.pos + 1} it is no JSON: {error.msg}") from error
    if not isinstance(document, dict):
        raise ValueError("it is no object of JSON")
    return document


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is no number of JSON")


def _function(fields: Any) -> Function:
    _check_fields(fields, Function._fields)
    if not all(isinstance(text, str) for text in fields.values()):
        raise ValueError("what stands in a function is text")
    function = Function(**fields)
    if function_id(function.definition) != function.id:
        raise ValueError(f"the definition is not that of function {function.id}")
    return function


def _fields(record: Record) -> dict[str, Any]:
    names = dict(zip(NAMES, rows.values(record), strict=False))  # the last one follows from the others
    flags = {name: bool(names[name]) for name in _FLAGS}
    return {**names, **flags, "run_ms": record.run_ms}


def _record(fields: Any) -> Record:
    _check_fields(fields, NAMES)
    if not isinstance(fields["run_ms"], list):
        raise ValueError("run_ms is a list of numbers")
    record = rows.from_fields(fields, strict=True)
    try:
        rows.TIMES.validate_python(record.run_ms)
    except ValidationError as error:
        raise ValueError(f"run_ms: {answers.problem(error)}") from error
    if record.key.threads < 1:
        raise ValueError(f"threads is {record.key.threads}")
    datetime.fromisoformat(record.created)
    return record


def _check_fields(fields: Any, names: Iterable[str]) -> None:
    if not isinstance(fields, dict):
        raise ValueError("it holds no fields")
    if fields.keys() != set(names):
        odd = sorted(fields.keys() ^ set(names))
        raise ValueError(f"{odd[0]} is {'missing' if odd[0] in names else 'no field of it'}")
    for name, value in fields.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"{name} is too large")
        if isinstance(value, str) and "\0" in value:  # no database keeps that
            raise ValueError(f"{name} holds a NUL")
        if isinstance(value, str):
            value.encode()  # half of a surrogate pair is no text
