"""The report of a demo run: one page that needs nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.reports.pages import Page, assert_stands_alone
from tests.reports.sample import report
from toolchain.errors import ToolchainError
from toolchain.reports.charts import best_curves, latencies, operators, tuning_curves
from toolchain.reports.demo import demo_page, write_demo_report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def html() -> str:
    return demo_page(report())


def test_page_is_self_contained(html: str) -> None:
    assert_stands_alone(html, figures=3)


def test_page_shows_the_runs_results(html: str) -> None:
    text = Page(html).text
    for shown_text in (
        "passed",
        "aarch64",
        "4 / 28",
        "rk3399-emulated",
        "zoo:mobilenet",
        "3.40e-06",
        "[0, 417]",
    ):
        assert shown_text in text
    assert "emulated: times say nothing about silicon" in text
    for axis in ("latency [ms]", "time per inference [ms]", "time / default; line: best so far"):
        assert axis in text
    assert "0.27.0.post1" in text


def test_real_board_without_emulation_warning() -> None:
    base = report()
    text = Page(demo_page(report(emulated=False, verify={**base.verify, "passed": False}))).text
    assert "emulated: times" not in text
    assert "✗ failed" in text


def test_names_are_escaped() -> None:
    bad = '<script>alert("x")</script> $\\frac{a}$ & '
    base = report()
    tune = {**base.tune, "tasks": [{**task, "name": bad} for task in base.tune["tasks"]]}
    bench = {**base.bench, "operators": [{"name": bad, "calls": 1, "ms": 1.0}]}
    outputs = [{**base.verify["outputs"][0], "name": bad}]
    page = Page(
        demo_page(
            report(model=bad, board=bad, tune=tune, bench=bench, verify={**base.verify, "outputs": outputs})
        )
    )
    assert "script" not in page.tags
    assert page.text.count(bad) >= 8  # in table, legend, title, axis … as it was written


def no_tasks(base: Any) -> dict[str, Any]:
    return {"tune": {**base.tune, "tasks": [], "trials": 0}, "trials": []}


def all_failed(base: Any) -> dict[str, Any]:
    return {"trials": [{**trial, "ms": None, "failure": "build"} for trial in base.trials]}


def bare_bench(base: Any) -> dict[str, Any]:
    left_out = ("times_ms", "operators", "warnings")
    return {
        "bench": {key: value for key, value in base.bench.items() if key not in left_out} | {"p99_ms": None}
    }


def nan_output(base: Any) -> dict[str, Any]:
    output = {
        **base.verify["outputs"][0],
        "max_rel_error": None,
        "worst_index": None,
        "problem": "the board's value at [0, 1] is nan",
        "passed": False,
    }
    return {"verify": {**base.verify, "passed": False, "outputs": [output]}}


@pytest.mark.parametrize(
    ("change", "figures", "texts"),
    [
        (no_tasks, 2, ["0 trials", "no task was tuned"]),
        (all_failed, 3, ["64 trials"]),
        (bare_bench, 1, ["86.51 ms\N{EN DASH}"]),
        (nan_output, 3, ["✗ failed", "the board's value at [0, 1] is nan"]),
    ],
)
def test_incomplete_runs_have_a_page(change: Any, figures: int, texts: list[str]) -> None:
    html = demo_page(report(**change(report())))
    assert_stands_alone(html, figures)
    text = Page(html).text
    assert all(words in text for words in texts)
    assert "None" not in text and "nan ms" not in text


@pytest.mark.parametrize(
    ("times", "p50", "p95"),
    [
        ([5.0], "5.000 ms", "5.000 ms"),
        ([5.0, 5.0], "5.000 ms", "5.000 ms"),
        ([0.001] * 12, "1.000 µs", "1.000 µs"),
        ([1.0, 2.0, 90000.0], "2.000 ms", "81.00 s"),
    ],
)
def test_plots_few_or_equal_latencies(times: list[float], p50: str, p95: str) -> None:
    drawn = ElementTree.fromstring(latencies(times))  # noqa: S314 (we wrote it)
    texts = [node.text for node in drawn.iter()]
    assert {f"p50 {p50}", f"p95 {p95}", f"latency [{p50.split()[1]}]", "runs"} <= set(texts)
    marks = [node for node in drawn.iter() if node.tag.endswith("circle")]
    assert len(marks) >= len(times)


def test_large_runs_stay_small() -> None:
    many = report(count=30, rounds=64, runs=10_000)
    page = demo_page(many)
    assert len(page) < 1_000_000
    assert "22 more tasks" in page
    assert "run (600 of 10000 drawn)" in page
    assert "8 more" in operators(many.bench["operators"])


def test_curves_of_best_times() -> None:
    tasks = [
        {"id": "a", "name": "conv", "default_ms": 10.0},
        {"id": "b", "name": "dense", "default_ms": 2.0},
        {"id": "c", "name": "pool", "default_ms": None},
    ]
    measured = [("a", 12.0), ("b", None), ("a", 5.0), ("b", 1.0), ("a", 8.0), ("c", 1.0), ("gone", 1.0)]
    trials = [{"task": task, "trial": n, "ms": ms, "failure": None} for n, (task, ms) in enumerate(measured)]
    conv, dense, pool = best_curves(tasks, trials)
    assert (conv.relative, conv.failed) == ((1.0, 0.5, 0.5), ())
    assert (dense.relative, dense.failed) == ((1.0, 0.5), (1,))
    assert (conv.trials, dense.trials) == ((1.2, 0.5, 0.8), (None, 0.5))
    assert pool.relative == ()
    assert "dense" in tuning_curves([conv, dense, pool])


@pytest.mark.slow
def test_page_is_reproducible(html: str, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.reports.sample import report\n"
        "from toolchain.reports.demo import write_demo_report\n"
        "write_demo_report(Path(sys.argv[1]), report())\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "there.html")],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"},
        check=True,
        timeout=60,
    )
    assert (tmp_path / "there.html").read_bytes() == html.encode()
    assert stat.S_IMODE((tmp_path / "there.html").stat().st_mode) & 0o600 == 0o600


def test_full_disk_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file where a folder is wanted")
    with pytest.raises(ToolchainError, match="cannot write"):
        write_demo_report(tmp_path / "folder" / "report.html", report())
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_templates_are_imported_when_a_page_is_made() -> None:
    code = "import sys, toolchain.reports.demo; assert not {'jinja2', 'tvm'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_control_characters_in_names_are_escaped() -> None:
    evil = "a\x1b[31m\u202e\x07<b>"
    sample = report(board=evil, model=evil, machine=evil)
    for task in sample.tune["tasks"]:
        task["name"] = evil
    bench = {**sample.bench, "operators": [{"name": evil, "ms": 1.0, "calls": 1}], "warnings": [evil]}
    html = demo_page(replace(sample, bench=bench))
    assert not {c for c in html if not c.isprintable()} - {"\n", "\t"}
    assert html.count(r"a\x1b[31m\u202e\x07&lt;b&gt;") > 5  # heading, tables, warning and plots
    Page(html)
