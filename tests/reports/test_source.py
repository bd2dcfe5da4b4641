"""Where a report's records come from."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records.samples import PROVENANCE, put
from toolchain.errors import UsageError
from toolchain.records.store import RecordStore
from toolchain.reports.source import of_store


def test_skips_runs_without_readable_records(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as store:
        earlier = put(store, 1.0, created="2026-01-01T00:00:00.000+00:00")
        later = replace(PROVENANCE, run="run-2")
        put(store, 2.0, provenance=later, created="2026-02-01T00:00:00.000+00:00")
        assert [record.provenance.run for record in of_store(store, None).records] == ["run-2"]
        with sqlite3.connect(tmp_path / "records.sqlite") as db:
            db.execute("UPDATE records SET run_ms='odd' WHERE run='run-2'")
        source = of_store(store, None)
        assert source.records == [earlier] and source.skipped is not None
        assert of_store(store, "run-2").records == []


def test_store_without_runs_is_reported(tmp_path: Path) -> None:
    with RecordStore(tmp_path / "records.sqlite") as store, pytest.raises(UsageError, match="no records"):
        of_store(store, None)
