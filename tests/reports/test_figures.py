"""The figures of reports: round ticks, text that is read and heard, labels that keep clear of each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reports.pages import Page, assert_stands_alone
from tests.reports.sample import report
from tests.reports.tuned import NAMES, WEIGHTS, records
from tests.ui.browser import Tab, browser
from toolchain.reports.acceptance import predicted_and_measured
from toolchain.reports.charts import latencies, operators
from toolchain.reports.demo import demo_page
from toolchain.reports.figures import ROWS, Figure, linear, logarithmic
from toolchain.reports.rollout import boards_by_state, latency_boxes
from toolchain.reports.runs import read_run
from toolchain.reports.tuning import tuning_page

HOSTILE = '</text></svg><script>alert("x")</script> ]]> & \' $x$'

# Pairs of labels of one figure that cover each other, and labels that stick out of it.
COLLISIONS = """
[...document.querySelectorAll("figure")].flatMap((figure) => {
  const texts = [...figure.querySelectorAll("svg text, p, li")].filter((each) => each.checkVisibility());
  const boxes = texts.map((each) => [each.textContent, each.getBoundingClientRect()]);
  const page = figure.getBoundingClientRect();
  const out = boxes.filter(([, b]) => b.left < page.left - 0.5 || b.right > page.right + 0.5);
  const pairs = boxes.flatMap(([text, a], place) => boxes.slice(place + 1).filter(([, b]) =>
    a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 2 && b.top < a.bottom - 2
  ).map(([other]) => `${text} on ${other}`));
  return [...pairs, ...out.map(([text]) => `${text} sticks out`)];
})
"""
COLOURS = """
[...document.querySelectorAll("figure svg text, figure svg circle, figure svg rect")].map(
  (each) => getComputedStyle(each).fill)
"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("low", "high", "integers", "labels"),
    [
        (0, 16.24, True, ["0", "2", "4", "6", "8", "10", "12", "14", "16"]),
        (0.5, 1.5, True, ["1"]),
        (0, 2.1, False, ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50", "1.75", "2.00"]),
        (0, 200, False, ["0", "25", "50", "75", "100", "125", "150", "175", "200"]),
        (0.93, 1.02, False, ["0.94", "0.96", "0.98", "1.00", "1.02"]),
        (-1, 1, False, ["-1.00", "-0.75", "-0.50", "-0.25", "0.00", "0.25", "0.50", "0.75", "1.00"]),
    ],
)
def test_ticks_are_round(low: float, high: float, integers: bool, labels: list[str]) -> None:
    assert [label for _, label in linear(low, high, integers=integers).ticks] == labels


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1.3, 4.5, ["1.5", "2", "3", "4"]),
        (0.07, 3, ["0.1", "0.2", "0.5", "1", "2"]),
        (0.02, 300, ["0.1", "1", "10", "100"]),
        (1e-9, 1e9, ["1e-09", "1e-06", "0.001", "1", "1000", "1e+06", "1e+09"]),
    ],
)
def test_logarithmic_ticks_are_decades_or_between(low: float, high: float, labels: list[str]) -> None:
    axis = logarithmic(low, high)
    assert [label for _, label in axis.ticks] == labels
    assert axis.share(low) == 0 and axis.share(high) == 1
    assert axis.share((low * high) ** 0.5) == pytest.approx(0.5)


@pytest.mark.parametrize("axis", [linear(1, 2), logarithmic(1, 2)])
def test_values_beyond_an_axis_are_clipped(axis: Any) -> None:
    assert [axis.share(value) for value in (-5, 0, 1, 2, 9)] == [0, 0, 0, 1, 1]


def test_figure_has_an_accessible_description() -> None:
    html = latencies([5.0, 6.0, 7.0])
    for element in (
        '<title id="latencies-title">Latency of each run and its distribution</title>',
        '<desc id="latencies-desc">3 runs: p50 6.000 ms, p95 6.900 ms</desc>',
        'role="img" aria-labelledby="latencies-title" aria-describedby="latencies-desc"',
    ):
        assert element in html


def test_hostile_names_are_escaped() -> None:
    chart = Figure("f", HOSTILE, HOSTILE, 50, above=HOSTILE)
    chart.plot(linear(0, 1), ROWS, HOSTILE).row(0, HOSTILE * 3)
    chart.explain("line", "var(--ink)", HOSTILE)
    figures = [
        chart.html(),
        operators([{"name": HOSTILE, "ms": 1.0, "calls": 1}]),
        boards_by_state({HOSTILE: [1, 2]}, frozenset()),
        predicted_and_measured({HOSTILE: [(1.0, 2.0)]}),
    ]
    for html in figures:
        page = Page(html)
        assert "script" not in page.tags and page.tags.count("svg") == 1
        assert HOSTILE in page.text


@pytest.mark.parametrize(
    ("counts", "texts"),
    [
        ({"works": [1]}, ["works", "1", "boards"]),
        ({"works": [0, 0]}, ["works", "0"]),
        ({"works": [3, 4], "rolled back": [0, 1]}, ["7", "1", "boards; the paler, the later the phase"]),
    ],
)
def test_bars_have_counts(counts: Any, texts: list[str]) -> None:
    text = Page(boards_by_state(counts, frozenset({"works"}))).text
    assert all(label in text for label in texts)


def test_phases_without_times_have_no_box() -> None:
    text = Page(latency_boxes([[1.0], [], [2.0, 3.0, 40.0]], 2.5)).text
    assert "phase 1 (1)" in text and "phase 2" not in text and "phase 3 (3)" in text
    assert "the lab's 2.500 ms" in text
    assert "the lab's" not in Page(latency_boxes([[0.0]], None)).text.replace("beside the lab's", "")


def _rollout_and_acceptance() -> str:
    """Return a page of the figures that the pages of demos and tuning do not have."""
    points = {f"network {n}, cpu, class's rates": [(10.0**-n, 2.0**n), (0.3, 0.4)] for n in range(4)}
    states = {"works": [3, 40, 1200], "rolled back": [0, 2, 5], "unreachable": [0, 1, 9]}
    times = [[9.0, 9.5, 10.0], [8.0 + 0.1 * n for n in range(40)] + [25.0]]
    figures = (
        predicted_and_measured(points),
        boards_by_state(states, frozenset({"works"})),
        latency_boxes(times, 9.5),
    )
    page = demo_page(report())
    return page[: page.index("<section>")] + f"<section>{''.join(figures)}</section></main></body></html>"


def _pages() -> dict[str, str]:
    bench = {**report().bench, "times_ms": [5.0] * 3}
    bench["operators"] = [{"name": "fused_" + "conv2d_" * 20, "calls": 1, "ms": 0.003}]
    return {
        "demo": demo_page(report()),
        "many": demo_page(report(count=30, rounds=64, runs=10_000)),
        "few": demo_page(report(count=1, rounds=2, runs=3, bench=bench)),
        "tuning": tuning_page(read_run(records(tasks=9, trials=24), NAMES, weights=WEIGHTS), "zoo:resnet18"),
        "others": _rollout_and_acceptance(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 1100])
@pytest.mark.parametrize("name", ["demo", "many", "few", "tuning", "others"])
def test_labels_do_not_overlap(tab: Tab, tmp_path: Path, name: str, width: int) -> None:
    html = _pages()[name]
    assert_stands_alone(html, html.count("<figure>"))
    (tmp_path / "page.html").write_text(html)
    tab.open(f"file://{tmp_path}/page.html", width=width)
    tab.until("document.readyState === 'complete' && document.querySelectorAll('figure').length > 0")
    assert tab.value(COLLISIONS) == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.complaints() == []


@pytest.mark.slow
def test_figure_uses_the_pages_colours(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(demo_page(report()))
    colours = []
    for dark in (False, True):
        tab.open(f"file://{tmp_path}/page.html", width=800, dark=dark)
        tab.until("document.readyState === 'complete' && document.querySelectorAll('figure').length > 0")
        colours.append(set(tab.value(COLOURS)))
    light, dark_ones = colours
    assert "rgb(29, 37, 48)" in light and "rgb(227, 232, 239)" in dark_ones
    assert not light & dark_ones
