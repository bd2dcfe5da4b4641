"""`toolchain records`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.records.samples import KEY, PROVENANCE, put
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
def test_lists_all_and_best_records(invoke: Toolchain) -> None:
    listed = invoke("records", "list", "--json").document
    assert [record["best_ms"] for record in listed] == [None, 1.5, 3.0]
    assert listed[0]["failure"] == "runtime"
    assert {record["workload"] for record in listed} == {KEY.workload}
    (best,) = invoke("records", "best", "--json").document
    assert best["best_ms"] == 1.5
    assert invoke("records", "best").out.splitlines()[1].startswith(KEY.workload[:8])


@pytest.mark.usefixtures("records")
def test_best_shows_options_of_other_builds(invoke: Toolchain) -> None:
    with user_store() as store:
        put(store, 0.5, kind="cpu", payload='{"algorithm":"winograd"}')
        put(store, 0.8, kind="cpu", payload='{"algorithm":"direct"}')
        put(store, 0.9, kind="cpu", payload='{"algorithm":"direct"}')
    best = invoke("records", "best", "--json").document
    assert {(record["best_ms"], record["options"]) for record in best} == {
        (0.5, ""),
        (0.8, "--winograd off"),
        (1.5, "--layout NCHW|NHWC"),
    }
    head, *rows = invoke("records", "best").out.splitlines()
    ends = {" ".join(row.split()[7:9]): row[head.index("WITH") :] for row in rows}
    assert ends == {"500.0 µs": "", "800.0 µs": "--winograd off", "1.500 ms": "--layout NCHW|NHWC"}


def test_no_records_are_no_error(invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "none"))
    configuration.cache_clear()
    assert invoke("records", "list", "--json").document == []
    for verb in ("list", "best"):
        odd = invoke("records", verb, "--class", "nope", "--class", "rk3399+emulated", "--json")
        assert (odd.code, odd.document) == (0, []) and odd.says("no board class 'nope'", "pynq")
        assert "class 'rk3399" not in odd.err


@pytest.mark.usefixtures("records")
def test_a_selection_is_listed(invoke: Toolchain) -> None:
    assert len(invoke("records", "list", "--task", KEY.workload[:8], "--json").document) == 3
    assert invoke("records", "best", "--class", "rk3399", "--json").document == []


@pytest.mark.usefixtures("records")
def test_the_newest_are_listed_and_the_others_counted(
    invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    with user_store() as store:
        for day in range(1, 61):
            desk = replace(PROVENANCE, board="desk")
            put(
                store,
                float(day),
                created=f"2026-{1 + day // 31:02}-{1 + day % 28:02}T00:00+00:00",
                provenance=desk,
            )
    monkeypatch.setenv("TZ", "UTC")
    ran = invoke("records", "list")
    assert len(ran.out.splitlines()) == 1 + 50
    assert ran.err.startswith("… and 13 more: --limit N shows more;")
    assert len(invoke("records", "list", "--limit", "63").out.splitlines()) == 1 + 63
    two = invoke("records", "list", "--limit", "2", "--json")
    assert [record["failure"] for record in two.document] == ["runtime", None]
    assert ran.out.splitlines()[1:3] == invoke("records", "list", "--limit", "2").out.splitlines()[1:]
    assert len(invoke("records", "list", "--json").document) == 63, "a program gets all of them"
    assert len(invoke("records", "list", "--board", "desk", "--json").document) == 60
    late = invoke("records", "list", "--since", "2026-02-20", "--board", "desk", "--json").document
    assert {record["created"][:10] >= "2026-02-20" for record in late} == {True} and late
    ran = invoke("records", "list", "--since", "yesterday")
    assert ran.code == 2 and ran.says("--since", "'yesterday' is not a day or time, such as 2026-11-23")


@pytest.mark.usefixtures("records")
def test_exported_records_are_imported_by_another_user(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = invoke("records", "list", "--json").document
    document = invoke("records", "export", "mine.jsonl", "--json").document
    assert document == {"file": str(folder / "mine.jsonl"), "functions": 1, "records": 3}
    assert invoke("records", "export", "best.jsonl", "--best").out == "1 record of 1 function: best.jsonl\n"

    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "another"))
    configuration.cache_clear()
    assert invoke("records", "import", "best.jsonl", "--json").document["new"] == 1
    imported = invoke("records", "import", "mine.jsonl", "--json").document
    assert (imported["records"], imported["new"]) == (3, 2)
    again = invoke("records", "import", "mine.jsonl")
    assert again.out.startswith("3 records, 0 of them new, are in ")
    found = invoke("records", "list", "--json").document
    assert sorted(found, key=str) == sorted(listed, key=str)


@pytest.mark.usefixtures("records")
def test_nothing_to_export_is_said_and_no_file_written(invoke: Toolchain, folder: Path) -> None:
    ran = invoke("records", "export", "x.jsonl", "--task", "ffff")
    assert ran.code == 2 and ran.says("none of 3 records", "toolchain records list")
    assert not (folder / "x.jsonl").exists()


@pytest.mark.usefixtures("records")
def test_a_file_that_cannot_be_imported_changes_nothing(invoke: Toolchain, folder: Path) -> None:
    invoke("records", "export", "x.jsonl")
    lines = (folder / "x.jsonl").read_text().splitlines(keepends=True)
    (folder / "x.jsonl").write_text("".join(lines[:-1]).replace('"1.5"', '"fast"') + lines[-1][:50])
    before = invoke("records", "list", "--json").document
    ran = invoke("records", "import", "x.jsonl")
    assert ran.code == 2 and ran.says("x.jsonl, line 5 is damaged: the file ends in the middle")
    assert invoke("records", "list", "--json").document == before


@pytest.mark.usefixtures("records")
def test_distill_keeps_best_records(invoke: Toolchain) -> None:
    dry = invoke("records", "distill", "--dry-run", "--json").document
    assert (dry["kept"], dry["removed"], dry["removed_failures"], dry["dry_run"]) == (1, 1, 1, True)
    assert len(invoke("records", "list", "--json").document) == 3
    (best,) = invoke("records", "best", "--json").document
    kept = invoke("records", "distill", "--keep-failures").out
    assert kept.startswith("1 slower record and 0 failures were removed; 2 kept: ")
    assert invoke("records", "distill").out.startswith("0 slower records and 1 failure were removed; 1 kept")
    del best["options"]
    assert invoke("records", "list", "--json").document == [best]
    assert invoke("records", "distill", "--keep", "0").code == 2


@pytest.mark.usefixtures("records")
def test_bad_row_is_skipped_and_named(invoke: Toolchain, tmp_path: Path) -> None:
    file = tmp_path / "data" / "records.sqlite"
    with sqlite3.connect(file) as db:
        db.execute("UPDATE records SET run_ms='{-1.0}' WHERE best_ms=1.5")
    for arguments, expected in (
        (["list", "--json"], [None, 3.0]),
        (["best", "--json"], [3.0]),
        (["distill", "--dry-run", "--json"], None),
        (["export", "x.jsonl", "--json"], None),
    ):
        ran = invoke("records", *arguments)
        assert ran.code == 0
        assert ran.says("warning: skipped 1 unreadable record of", str(file), "row 2: run_ms", "repair")
        if expected:
            assert [record["best_ms"] for record in ran.document] == expected
    assert invoke("report", "-o", "page.html").says("warning: skipped 1 unreadable record", "row 2: run_ms")
    assert invoke("records", "repair", "--dry-run").out.endswith(f"1 record would be removed: {file}\n")
    removed = invoke("records", "repair", "--json").document
    assert [row["row"] for row in removed["removed"]] == [2] and "run_ms" in removed["removed"][0]["problem"]
    assert invoke("records", "list").err == ""


@pytest.mark.usefixtures("records")
def test_a_long_field_widens_no_table(invoke: Toolchain) -> None:
    with user_store() as store:
        put(store, 2.0, key=replace(KEY, cpu="x" * 100_000, level="y" * 100_000), kind="z" * 100_000)
    listed = invoke("records", "list")
    assert listed.code == 0 and max(map(len, listed.out.splitlines())) < 400
    assert "x" * 63 + "…" in listed.out
    assert any(len(record["cpu"]) == 100_000 for record in invoke("records", "list", "--json").document)


@pytest.mark.slow
def test_metaschedules_files_there_and_back(
    invoke: Toolchain, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.backends.tensorir import test_database as samples

    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    configuration.cache_clear()
    with user_store() as store:
        samples.fill(store)
    ran = invoke("records", "export", "database", "--format", "metaschedule", "--json")
    assert ran.document == {"file": str(folder / "database"), "functions": 1, "records": 2}
    again = ("records", "import", "database", "--format", "metaschedule", "--board", "x86_64", "--json")
    assert [invoke(*again).document[name] for name in ("records", "new")] == [2, 0], (
        "it is the same measurement"
    )
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "another"))
    configuration.cache_clear()
    assert [invoke(*again).document["new"] for _ in range(2)] == [2, 0]
    (best,) = invoke("records", "best", "--json").document
    assert (best["best_ms"], best["board"], best["kind"]) == (0.7, "x86_64", "metaschedule")


@pytest.mark.usefixtures("records")
def test_formats_and_their_options(invoke: Toolchain) -> None:
    ran = invoke("records", "import", "x", "--format", "metaschedule")
    assert ran.code == 2 and ran.says("do not say which board", "--board B")
    ran = invoke("records", "import", "x", "--board", "rk3399")
    assert ran.code == 2 and ran.says("--board rk3399", "leave --board out")
