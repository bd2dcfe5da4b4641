"""The report of a tuning run: one page that needs nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.reports.pages import Page, assert_stands_alone
from tests.reports.tuned import NAMES, WEIGHTS, records
from toolchain.errors import ToolchainError
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.reports.runs import read_run
from toolchain.reports.tuning import report_result, tuning_page, write_tuning_report
from toolchain.tuning.result import TuneResult

pytestmark = pytest.mark.slow

HOSTILE = '<img src=x onerror=alert(1)><script>alert("x")</script>\x1b[31m\u202e & "'
SHOWN = '<img src=x onerror=alert(1)><script>alert("x")</script>\\x1b[31m\\u202e & "'


@pytest.fixture(scope="module")
def html() -> str:
    return tuning_page(read_run(records(tasks=9, trials=24), NAMES, weights=WEIGHTS), "zoo:resnet18")


def test_page_is_self_contained(html: str) -> None:
    assert_stands_alone(html, figures=3)


def test_page_shows_the_runs_results(html: str) -> None:
    text = Page(html).text
    for shown_text in (
        "zoo:resnet18 on x86_64",
        "1a2b3c55 fused_conv2d8_add_relu",
        "8.000 ms",
        "b1",
        "b2",
        "timeout",
    ):
        assert shown_text in text
    for axis in ("time of one call [ms]", "time / default; line: best so far", "all tasks / default"):
        assert axis in text
    assert "these tasks, untuned" in text and "emulated:" not in text and "modelled:" not in text


def test_records_alone_give_no_network_time() -> None:
    text = Page(tuning_page(read_run(records(), NAMES))).text
    assert "these tasks, untuned" not in text and "all tasks, once each / default" in text


def test_names_are_escaped() -> None:
    stored = [
        replace(
            record,
            failure=HOSTILE if record.failure else None,
            key=replace(record.key, board_class=HOSTILE),
            provenance=replace(record.provenance, board=HOSTILE, governor=HOSTILE),
        )
        for record in records(run=HOSTILE)
    ]
    html = tuning_page(read_run(stored, dict.fromkeys(NAMES, HOSTILE)), HOSTILE)
    page = Page(html)
    assert not {"script", "img"} & set(page.tags) and page.fetched == []
    assert not {character for character in html if not character.isprintable()} - {"\n", "\t"}
    assert page.text.count(SHOWN) > 8  # title, heading, tables, axes


def cut() -> list[Record]:
    return records(cut=True)


def only_defaults() -> list[Record]:
    return records(trials=0, cut=True)


def all_failed() -> list[Record]:
    stored = records(cut=True)
    return [r if r.provenance.trial is None else replace(r, run_ms=(), failure="build") for r in stored]


def no_defaults() -> list[Record]:
    return [record for record in records(cut=True) if record.provenance.trial is not None]


def only_choices() -> list[Record]:
    return [record for record in records() if record.confirmed]


def many_tasks() -> list[Record]:
    return records(tasks=30, trials=4)


@pytest.mark.parametrize("stored", [cut, only_defaults, all_failed, no_defaults, only_choices, many_tasks])
def test_every_kind_of_run_has_a_page(stored: Any) -> None:
    page = tuning_page(read_run(stored(), NAMES))
    Page(page)
    assert len(page) < 1_000_000


def test_interrupted_run_is_marked() -> None:
    explained = "“not compared”"  # below the table
    for stored, marked in ((records(cut=True), True), (records(), False)):
        text = Page(tuning_page(read_run(stored, NAMES))).text
        assert ("not compared" in text.replace(explained, "")) == marked


def test_modelled_times_are_marked() -> None:
    assert "no clock has shown" in Page(tuning_page(read_run(records(modelled=True), NAMES))).text


def test_emulated_board_is_marked() -> None:
    stored = [replace(r, key=replace(r.key, board_class="rk3399+emulated")) for r in records()]
    assert "emulated: times say nothing about silicon" in Page(tuning_page(read_run(stored, NAMES))).text


def test_report_at_the_end_of_a_run_has_network_times(tmp_path: Path) -> None:
    stored = records(cut=True)
    with RecordStore(tmp_path / "records.sqlite") as store:
        for record in stored:
            workload = record.key.workload
            function = store.add_function(workload, NAMES[record.function], workload)
            store.add(replace(record, function=function))
        run = stored[0].provenance.run
        result = TuneResult([], 100.0, run=run, search_s=80.0, in_use_s={"b1": 60.0, "b2": 20.0})
        report_result(tmp_path / "page.html", store, result, "zoo:resnet18")
    text = Page((tmp_path / "page.html").read_text()).text
    assert "zoo:resnet18 on x86_64" in text and "75 %" in text and "25 %" in text


def test_page_shows_the_verdict() -> None:
    verdict = "8.0 ms -> 7.5 ms & <b>"
    assert verdict in Page(tuning_page(read_run(records(), NAMES), verdict=verdict)).text


def test_equal_runs_give_equal_bytes(html: str) -> None:
    again = tuning_page(read_run(records(tasks=9, trials=24), NAMES, weights=WEIGHTS), "zoo:resnet18")
    assert again == html


def test_unwritable_page_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file where a folder is wanted")
    with pytest.raises(ToolchainError, match="cannot write"):
        write_tuning_report(tmp_path / "folder" / "report.html", read_run(records(), NAMES))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
