"""`toolchain report`: a run's page from the user's records, from a store, from an exported file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.reports.tuned import NAMES, records
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore

pytestmark = pytest.mark.slow
EARLY, LATE = "aa" * 16, "ab" * 16


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be no records."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Put two runs among the user's records; return the store's file."""
    path = tmp_path / "data" / FILE_NAME
    made = [*records(EARLY), *records(LATE, later=timedelta(hours=1), cut=True)]
    with RecordStore(path) as store:
        functions = {}
        for record in made:
            workload = record.key.workload
            if record.function not in functions:
                functions[record.function] = store.add_function(workload, NAMES[record.function], workload)
        for record in made:
            store.add(type(record)(**{**vars(record), "function": functions[record.function]}))
    return path


@pytest.mark.usefixtures("stored")
def test_the_last_run_has_a_page(invoke: Toolchain, folder: Path) -> None:
    made = invoke("report", "--json").document
    assert (made["run"], made["tasks"], made["trials"]) == (LATE, 3, 36)
    page = Path(made["report"])
    assert page == folder / "tuning-abababab.html"
    assert "fused_conv2d0_add_relu" in page.read_text()


@pytest.mark.usefixtures("stored")
def test_a_named_run_goes_where_it_is_wanted(invoke: Toolchain, folder: Path) -> None:
    made = invoke("report", "--run", "aa", "-o", "page.html")
    assert made.code == 0 and "page.html: 36 trials of 3 tasks" in made.out
    assert EARLY in (folder / "page.html").read_text()


def test_a_store_or_an_exported_file_says_the_same(invoke: Toolchain, stored: Path, folder: Path) -> None:
    assert invoke("records", "export", "all.jsonl").code == 0
    pages = []
    for source in ([], [stored], ["all.jsonl"]):
        assert invoke("report", *source, "-o", "page.html").code == 0
        pages.append((folder / "page.html").read_text())
    assert pages[0] == pages[1] == pages[2]


def test_the_last_run_of_a_file_is_that_of_the_latest_records(
    invoke: Toolchain, stored: Path, folder: Path
) -> None:
    assert invoke("records", "export", "all.jsonl").code == 0 and stored
    header, *lines = map(json.loads, (folder / "all.jsonl").read_text().splitlines())
    functions = [line for line in lines if "function" in line]
    early, *others = [line for line in lines if "record" in line]
    assert early["record"]["run"] == EARLY
    early["record"]["created"] = "2026-11-01T00:00:00.000+00:00"  # it went on after the other
    text = "".join(json.dumps(line) + "\n" for line in (header, *functions, early, *others))
    (folder / "sorted.jsonl").write_text(text)
    said = invoke("report", "sorted.jsonl", "-o", "page.html", "--json")
    assert (said.code, said.document["run"]) == (0, EARLY)


def test_the_last_run_on_a_board_or_a_class(invoke: Toolchain, stored: Path, files: Path) -> None:
    far = "ac" * 16
    made = records(far, later=timedelta(hours=2))
    with RecordStore(stored) as store:
        function = store.functions()[0].id
        for record in made:
            moved = replace(record.provenance, board="far")
            store.add(replace(record, function=function, provenance=moved))
    assert invoke("report", "--json").document["run"] == far
    assert invoke("report", "--board", "b1", "--json").document["run"] == LATE
    assert invoke("report", "--board", "x86_64", "--json").document["run"] == far
    assert invoke("records", "export", "all.jsonl").code == 0
    assert invoke("report", "all.jsonl", "--board", "b1", "--json").document["run"] == LATE
    for source in ([], ["all.jsonl"]):
        says = ["--board nobody: no tuning run", "records list"]
        refused(invoke, files, 2, says, "report", *source, "--board", "nobody", "-o", "other.html")


def test_refuses_unreportable_sources(invoke: Toolchain, files: Path) -> None:
    refused(invoke, files, 2, ["there are no records", "toolchain tune"], "report")
    refused(invoke, files, 2, ["nosuch.sqlite"], "report", "nosuch.sqlite")
    refused(invoke, files, 2, ["good.onnx"], "report", "good.onnx")


@pytest.mark.usefixtures("stored")
def test_unknown_run_lists_known_runs(invoke: Toolchain, files: Path) -> None:
    refused(invoke, files, 2, ["--run ff", "abababab", "aaaaaaaa"], "report", "--run", "ff")
