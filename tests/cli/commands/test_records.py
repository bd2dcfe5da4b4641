"""`toolchain records`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.records.samples import KEY, put
from toolchain.configuration.settings import configuration
from toolchain.records.store import user_store


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three records of one task: a slow one, the best, and one that failed."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    configuration.cache_clear()
    with user_store() as store:
        put(store, 3.0)
        put(store, 1.5)
        put(store, 9.0, digest="failed", run_ms=(), failure="runtime")


@pytest.mark.usefixtures("records")
def test_all_are_listed_and_the_best_is_told(invoke: Toolchain) -> None:
    listed = invoke("records", "list", "--json").document
    assert [record["best_ms"] for record in listed] == [3.0, 1.5, None]
    assert listed[2]["failure"] == "runtime"
    assert {record["workload"] for record in listed} == {KEY.workload}
    (best,) = invoke("records", "best", "--json").document
    assert best["best_ms"] == 1.5
    assert invoke("records", "best").out.splitlines()[1].startswith(KEY.workload[:8])


def test_no_records_are_no_error(invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "none"))
    configuration.cache_clear()
    assert invoke("records", "list", "--json").document == []
