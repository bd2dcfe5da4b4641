"""A store of records that a disk, a program or a version has changed: read, or refused in a sentence.

What is tried, on files of this version and of the one before: changed bytes of the file, and rows whose
values are of other types than are written.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.json_values import NUMBERS, WORDS
from tests.fuzz.loop import Attempt, run
from tests.records.samples import KEY, KINDS, put
from toolchain.errors import ToolchainError
from toolchain.records.database import ALL as COLUMNS
from toolchain.records.lookup import lookup
from toolchain.records.record import Record
from toolchain.records.store import RecordStore

pytestmark = pytest.mark.slow

TIMES = (
    "[]",
    "[1.5]",
    "[-1]",
    "[0]",
    "[1e999]",
    "NaN",
    "[null]",
    '["1"]',
    "{}",
    "[" * 5000,
    "[1.5, 1e9]",
    "x",
)
PAGE = 4096
OLD = Path(__file__).parents[1] / "data" / "records" / "version-1.sqlite"


def change_rows(random: Random, file: Path) -> None:
    """Put other values into some columns, by SQLite's own means."""
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA ignore_check_constraints=ON")
        for _ in range(random.choice((1, 1, 2, 4))):
            column = random.choice([*COLUMNS.split(", "), "best_ms", "run_ms"])
            value = random.choice((random.choice(WORDS), random.choice(NUMBERS), b"\xff\xfe", None, *TIMES))
            if column == "run_ms" and random.random() < 0.7:
                value = random.choice(TIMES)
            if isinstance(value, int) and abs(value) >= 2**63:
                value = float(value)
            as_text = "CAST(? AS TEXT)" if isinstance(value, bytes) and random.random() < 0.5 else "?"
            change = f"UPDATE records SET {column}={as_text} WHERE id={random.randrange(1, 4)}"  # noqa: S608
            with suppress(sqlite3.Error, UnicodeEncodeError):
                db.execute(change, (value,))
        if random.random() < 0.1:
            db.execute("DELETE FROM functions")
        if random.random() < 0.1:
            db.execute(f"PRAGMA {random.choice(('user_version', 'application_id'))}={random.randrange(9)}")
    db.close()


def change_bytes(random: Random, file: Path) -> None:
    """Change bytes of the file, or its length."""
    data = file.read_bytes()
    if random.random() < 0.2:
        file.write_bytes(data[: random.randrange(len(data))])
        return
    at = random.randrange(0, len(data), PAGE)
    file.write_bytes(
        data[:at] + rpc.mutated(random, data[at : at + random.choice((100, PAGE))]) + data[at + PAGE :]
    )


def check(record: Record) -> None:
    """Check that a record which was read can be used."""
    texts = (record.kind, record.payload, record.digest, record.created, record.key.level, record.key.cpu)
    assert all(isinstance(text, str) for text in (*texts, record.provenance.board)), f"{record}"
    assert type(record.key.threads) is int, f"{record}"
    assert record.best_ms is None or 0 < record.best_ms < 1e11, f"{record}"
    assert (record.failure is None) == bool(record.run_ms), f"{record}"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Make a store; yield what reads it after a change."""
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder) / "good.sqlite"
        with RecordStore(good) as store:
            for ms in (1.5, 2.5):
                put(store, ms)
            put(store, 0.0, run_ms=(), failure="timeout", kind="cpu")
        with sqlite3.connect(good) as db:
            db.execute("PRAGMA journal_mode=DELETE")
        db.close()
        written = (good.read_bytes(), OLD.read_bytes())
        file = Path(folder) / "x.sqlite"

        def attempt(random: Random) -> None:
            for name in ("x.sqlite-wal", "x.sqlite-shm", "x.sqlite-journal"):
                Path(folder, name).unlink(missing_ok=True)
            file.write_bytes(random.choice(written))
            random.choice((change_rows, change_bytes))(random, file)
            try:
                with RecordStore(file, read_only=random.random() < 0.3) as store:
                    for record in (*store.all(), *store.all(KEY)):
                        check(record)
                    store.measured(KEY)
                    hit = lookup(store, KEY, KINDS, shipped=None)
                    assert hit is None or isinstance(hit.definition, str), f"{hit}"
            except ToolchainError as error:
                assert os.fspath(file) in error.message, f"not a word of the file: {error}"

        yield attempt


def test_a_hundred_damaged_stores_are_read_or_refused() -> None:
    run("records", harness, seed=20260, cases=120)
