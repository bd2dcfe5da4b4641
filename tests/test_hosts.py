"""The table of hosts says what was tried, and how old that is."""

from __future__ import annotations

import datetime
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tools import hosts
from tools.hosts import PAGE, SUITES, WAYS, Tried, as_table, keep, stale, tried

ROW = Tried("bookworm", "amd64", "clone", "Debian", "3.11.2", "2026-01-31", "abc", 60, True)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(PAGE, tmp_path)
    monkeypatch.setattr(hosts, "TABLE", tmp_path / "hosts.json")
    monkeypatch.setattr(hosts, "PAGE", tmp_path / "hosts.md")
    return tmp_path / "hosts.json"


def test_a_try_replaces_the_one_before(table: Path) -> None:
    keep(replace(ROW, suite="trixie"))
    keep(ROW)
    keep(replace(ROW, passed=False, last="no"))
    assert [(row.suite, row.passed) for row in tried()] == [("bookworm", False), ("trixie", True)]
    assert json.loads(table.read_text())[0] == asdict(replace(ROW, passed=False, last="no"))


def test_what_is_missing_failed_or_old_is_told(table: Path) -> None:
    today = datetime.date(2026, 5, 1)
    assert len(stale(today)) == len(WAYS) * len(SUITES)
    for suite in SUITES:
        for way in WAYS:
            keep(replace(ROW, suite=suite, way=way))
    assert stale(today) == []
    assert len(stale(today + datetime.timedelta(days=1))) == len(WAYS) * len(SUITES)
    keep(replace(ROW, passed=False))
    assert stale(today) == ["bookworm, clone: failed on 2026-01-31"]
    assert table.exists()


def test_the_page_has_the_table() -> None:
    assert as_table(tried()) in PAGE.read_text()
