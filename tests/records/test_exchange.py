from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.samples import KEY, KINDS, PROVENANCE, put
from toolchain.errors import ToolchainError, UsageError
from toolchain.records.exchange import Function, read_records, write_records
from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.records.sqlite import SqliteFile
from toolchain.records.store import RecordStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "own.sqlite") as store:
        yield store


@pytest.fixture
def file(store: RecordStore, tmp_path: Path) -> Path:
    """Return an exported file: a header, a function, four records."""
    put(store, 3.0, payload='{"trace": ["ü", "\u2028"]}')
    put(store, 1.5, confirmed=True, provenance=replace(PROVENANCE, modelled=True, trial=None))
    put(store, 9.0, digest="failed", run_ms=(), failure="runtime")
    put(store, 2.0, run_ms=(1.0, 3.0), key=replace(KEY, device="opencl:Mali", board_class="rk3399+emulated"))
    path = tmp_path / "records.jsonl"
    assert write_records(path, store.functions(), store.all()) == (1, 4)
    return path


def changed(file: Path, number: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the document on one line of a file."""
    lines = file.read_text().splitlines()
    document = json.loads(lines[number - 1])
    change(document)
    lines[number - 1] = json.dumps(document)
    file.write_text("\n".join(lines) + "\n")


def refused(file: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_records(file)
    assert str(file) in caught.value.message and caught.value.hint
    return caught.value.message


def test_export_and_import_preserve_records(store: RecordStore, file: Path, tmp_path: Path) -> None:
    assert file.read_text().isascii() and file.read_text().count("\n") == 6
    with RecordStore(tmp_path / "other.sqlite") as other:
        assert other.add_new(*read_records(file)) == 4
        assert other.all() == store.all()
        assert other.best(KEY, KINDS) == store.best(KEY, KINDS)
        function = store.all()[0].function
        assert other.definition(function) == store.definition(function) == "{}"


def test_import_skips_known_records(store: RecordStore, file: Path) -> None:
    assert store.add_new(*read_records(file)) == 0
    new = put(store, 7.0)
    with RecordStore(file.parent / "other.sqlite") as other:
        assert [other.add_new(*read_records(file)) for _ in range(3)] == [4, 0, 0]
        write_records(file, store.functions(), store.all())
        assert other.add_new(*read_records(file)) == 1
        assert other.all() == store.all() and other.all()[-1] == new


def test_later_confirmation_wins_over_an_imported_earlier_one(store: RecordStore, tmp_path: Path) -> None:
    earlier = put(store, 1.0, confirmed=True, created="2026-01-01T00:00:00.000+00:00")
    path = tmp_path / "records.jsonl"
    write_records(path, store.functions(), store.all())
    with RecordStore(tmp_path / "other.sqlite") as other:
        later = put(other, 2.0, confirmed=True, created="2026-02-01T00:00:00.000+00:00")
        assert other.add_new(*read_records(path)) == 1
        assert earlier in other.all() and other.best(KEY, KINDS) == later


def test_refutation_holds_for_records_imported_later(store: RecordStore, tmp_path: Path) -> None:
    put(store, 1.0, digest="d", created="2026-01-01T00:00:00.000+00:00")
    path = tmp_path / "records.jsonl"
    write_records(path, store.functions(), store.all())
    with RecordStore(tmp_path / "other.sqlite") as other:
        put(
            other, 0.0, digest="d", run_ms=(), failure="wrong result", created="2026-02-01T00:00:00.000+00:00"
        )
        assert other.add_new(*read_records(path)) == 1
        assert other.best(KEY, KINDS) is None


def test_failed_import_changes_nothing(file: Path) -> None:
    functions, records = read_records(file)
    bad = replace(records[-1], function="nowhere")
    with RecordStore(file.parent / "other.sqlite") as other:
        with pytest.raises(ToolchainError, match="FOREIGN KEY"):
            other.add_new(functions, [*records, bad])
        assert other.all() == [] and other.functions() == []


def test_functions_without_records_are_not_exported(store: RecordStore, tmp_path: Path) -> None:
    put(store, 1.0)
    store.add_function(KEY.workload, "unused", "another")
    assert len(store.functions()) == 2
    assert write_records(tmp_path / "x", store.functions(), store.all()) == (1, 1)


@pytest.mark.parametrize("lines", [1, 2, 3, 5])
def test_refuses_a_file_without_its_last_lines(file: Path, lines: int) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:lines]))
    message = refused(file)
    assert "line 1 promises 1 function and 4 records" in message and "nothing was imported" in message


@pytest.mark.slow
@settings(max_examples=40)
@given(at=st.integers(0, 2500))
def test_refuses_a_truncated_file(file: Path, at: int) -> None:
    data = file.read_bytes()
    assert len(data) > 2500
    cut = file.with_name("cut")
    cut.write_bytes(data[:at])
    message = refused(cut)
    number = data[:at].count(b"\n") + 1
    ends_with_a_line = data[:at].endswith(b"\n")
    assert (
        ends_with_a_line or number == 1 or f"line {number} is damaged: the file ends in the middle" in message
    )


@pytest.mark.parametrize(
    "text", ["", "\n", "these are no records\n", "[]\n", '{"format": "other"}\n', "\xff\n"]
)
def test_refuses_a_file_of_another_format(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text, encoding="latin-1")
    assert "is not a file of records" in refused(path)


@pytest.mark.slow
@settings(max_examples=60)
@given(changes=st.lists(st.tuples(st.integers(0, 2**16), st.binary(max_size=6)), min_size=1, max_size=4))
def test_corrupted_bytes_are_refused_or_read(file: Path, changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(file.read_bytes())
    for at, new in changes:
        data[at % len(data) : at % len(data) + len(new)] = new
    changed_file = file.with_name("changed")
    changed_file.write_bytes(data)
    try:
        functions, records = read_records(changed_file)
    except UsageError as error:
        assert str(changed_file) in error.message and error.message.isprintable()
        return
    with RecordStore(SqliteFile(None)) as store:  # what is read can be kept
        store.add_new(functions, records)
        assert store.all()


def test_refuses_a_file_of_a_newer_version(file: Path) -> None:
    changed(file, 1, lambda header: header.update(version=7))
    assert "line 1: the format has version 7, but this toolchain reads version 1" in refused(file)


def test_refuses_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "nothing")
    assert "it is a folder" in refused(tmp_path)


DAMAGES = [
    (2, lambda line: line["function"].update(definition="changed"), "the definition does not match"),
    (2, lambda line: line["function"].pop("name"), "name is missing"),
    (2, lambda line: line["function"].update(name=5), "text"),
    (2, lambda line: line.update(record={}), "neither a record nor a function"),
    (3, lambda line: line["record"].update(speed=5), "speed is an unknown field"),
    (3, lambda line: line["record"].update(threads="4"), "key.threads"),
    (3, lambda line: line["record"].update(threads=0), "threads is 0"),
    (3, lambda line: line["record"].update(trial=10**30), "trial is too large"),
    (3, lambda line: line["record"].update(run_ms=[-1.0]), "is not a plausible time"),
    (3, lambda line: line["record"].update(run_ms=[1e-300]), "run_ms: 0 is 1e-300: 1e-300 ms is not"),
    (3, lambda line: line["record"].update(run_ms=[]), "have either times or a failure"),
    (3, lambda line: line["record"].update(run_ms=7), "run_ms must be a list"),
    (3, lambda line: line["record"].update(run_ms=[float("nan")]), "NaN is not a JSON number"),
    (3, lambda line: line["record"].update(failure="hunger", run_ms=[]), "failure"),
    (3, lambda line: line["record"].update(created="yesterday"), "yesterday"),
    (3, lambda line: line["record"].update(created="2026-01-01T00:00:00"), "without a time zone"),
    (3, lambda line: line["record"].update(created="2126-01-01T00:00:00+00:00"), "which is still to come"),
    (3, lambda line: line["record"].update(created="0001-01-01T00:00:00+00:00"), "in the year 1"),
    (3, lambda line: line["record"].update(payload="a\0b"), "payload contains a NUL"),
    (3, lambda line: line["record"].update(payload="\ud800"), "surrogates not allowed"),
    (3, lambda line: line["record"].update(confirmed=1), "confirmed"),
    (5, lambda line: line["record"].update(function="0" * 64), "no line before it has function 000"),
]


@pytest.mark.parametrize(("number", "change", "says"), DAMAGES, ids=[row[2] for row in DAMAGES])
def test_damaged_line_is_named(
    file: Path, number: int, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    changed(file, number, change)
    message = refused(file)
    assert f"line {number} is damaged: " in message and says in message, message


def test_position_in_a_damaged_line_is_named_once(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    at = lines[3].index('"triple"')
    lines[3] = lines[3][:at] + "?" + lines[3][at + 1 :]
    file.write_text("".join(lines))
    message = refused(file)
    assert f"line 4 is damaged: invalid JSON at character {at + 1}: Expecting property name" in message
    assert "line 1" not in message and "column" not in message


def test_refuses_lines_that_are_not_json(file: Path) -> None:
    lines = file.read_text().splitlines(keepends=True)
    for bad in ("{", "[" * 100_000, "1" * 5000, '"text"', "\x1b[31m"):
        file.write_text("".join([*lines[:3], bad + "\n", *lines[4:]]))
        message = refused(file)
        assert "line 4 is damaged" in message and message.isprintable()


_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
_MS = st.floats(min_value=1e-6, max_value=1e9)
_COUNT = st.integers(0, 2**53)
RECORDS = st.builds(
    Record,
    key=st.builds(RecordKey, *[_TEXT] * 4, st.integers(1, 4096), _TEXT, _TEXT),
    function=st.just(sha256(b"f").hexdigest()),
    kind=_TEXT,
    payload=_TEXT,
    digest=_TEXT,
    provenance=st.builds(
        Provenance,
        *[_TEXT] * 6,
        trial=st.none() | _COUNT,
        governor=st.none() | _TEXT,
        temperature_c=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        excluded=_TEXT,
        modelled=st.booleans(),
    ),
    confirmed=st.booleans(),
    created=st.datetimes(datetime(1970, 1, 2), datetime(2026, 1, 1)).map(
        lambda time: time.replace(tzinfo=UTC).isoformat(timespec="milliseconds")
    ),
)


@pytest.mark.slow
@settings(max_examples=20)
@given(record=RECORDS, times=st.lists(_MS, min_size=1, max_size=4).map(tuple))
def test_any_record_survives_a_file(tmp_path: Path, record: Record, times: tuple[float, ...]) -> None:
    path = tmp_path / "any"
    function = Function(record.function, record.key.workload, "f", "f")
    both = [replace(record, run_ms=times), replace(record, failure="timeout", run_ms=())]
    write_records(path, [function], both)
    assert read_records(path) == ([function], both)


IMPORT = """
import sys
from pathlib import Path
from toolchain.records.exchange import read_records
from toolchain.records.store import RecordStore
with RecordStore(Path(sys.argv[1])) as store:
    store.add_new(*read_records(Path(sys.argv[2])))
"""


@pytest.mark.slow
def test_full_disk_imports_nothing(store: RecordStore, tmp_path: Path) -> None:
    for number in range(1, 200):
        put(store, float(number), payload="x" * 5000)
    file, other = tmp_path / "x.jsonl", tmp_path / "other.sqlite"
    write_records(file, store.functions(), store.all())
    RecordStore(other).close()
    limit = 500_000
    ended = subprocess.run(
        [sys.executable, "-c", IMPORT, str(other), str(file)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert f"cannot write {other}" in ended.stderr.splitlines()[-1]
    with RecordStore(other) as imported:
        assert imported.all() == [] and imported.functions() == []
        assert imported.add_new(*read_records(file)) == 199


def test_new_fields_are_written_only_with_a_value(store: RecordStore, file: Path) -> None:
    assert "conditions" not in file.read_text()
    assert {record.provenance.conditions for record in read_records(file)[1]} == {None}
    known = replace(PROVENANCE, conditions='{"others": 2}')
    put(store, 8.0, provenance=known)
    write_records(file, store.functions(), store.all())
    assert file.read_text().count("conditions") == 1
    assert read_records(file)[1] == store.all()
    changed(file, 7, lambda document: document["record"].update(conditions=3))
    assert "line 7" in refused(file)


def test_created_times_are_compared_across_time_zones(store: RecordStore, tmp_path: Path) -> None:
    put(store, 1.0, confirmed=True, created="2026-07-01T13:00:00.000+14:00")  # the evening before, in UTC
    put(store, 2.0, confirmed=True, created="20260701T000000+00:00")
    file = tmp_path / "zones.jsonl"
    write_records(file, store.functions(), store.all())
    with RecordStore(tmp_path / "other.sqlite") as other:
        other.add_new(*read_records(file))
        assert {record.created for record in other.all()} == {
            "2026-06-30T23:00:00.000+00:00",
            "2026-07-01T00:00:00.000+00:00",
        }
        best = other.best(KEY, KINDS)
    assert best is not None and best.best_ms == 2.0


def test_refuses_numbers_too_large_for_json(store: RecordStore, tmp_path: Path) -> None:
    """Python reads it as infinity, and the next export could not be imported."""
    put(store, 1.0, provenance=replace(PROVENANCE, temperature_c=41.5))
    file = tmp_path / "hot.jsonl"
    write_records(file, store.functions(), store.all())
    file.write_text(file.read_text().replace("41.5", "1e999"))
    with pytest.raises(UsageError, match="temperature_c is inf, which is no number"):
        read_records(file)


@pytest.mark.slow
def test_concurrent_imports_store_a_measurement_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second import begins when the first has looked at what is stored."""
    path = tmp_path / "records.sqlite"
    with RecordStore(path) as first, RecordStore(path) as second, RecordStore(tmp_path / "from") as source:
        for number in range(3):
            put(source, 1.0 + number, digest=str(number))
        functions, records = source.functions(), source.all()
        other = [replace(record, provenance=replace(record.provenance, run="another")) for record in records]
        importing = threading.Thread(target=lambda: second.add_new(functions, other, of_any_run=False))
        look = first.all

        def look_and_let_the_other_begin() -> list[Record]:
            measurements = look()
            importing.start()
            importing.join(1.0)  # it waits for the transaction that it must not pass
            return measurements

        monkeypatch.setattr(first, "all", look_and_let_the_other_begin)
        assert first.add_new(functions, records, of_any_run=False) == 3
        importing.join()
        assert len(look()) == 3
