"""The page in a headless Chromium: layout, keyboard, what it shows while commands work, and attacks."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.events.logs import BEGAN, write_log
from tests.test_quantities import TIMES
from tests.ui import layout, scene
from tests.ui.browser import Tab, browser
from tests.ui.pages import Served, served
from toolchain.cli.commands.pages import opened_page
from toolchain.events.lines import EndLine, ListedTask, StepLine, TasksLine, TrialLine, VerdictLine
from toolchain.events.log import EventLog
from toolchain.quantities import UNKNOWN
from toolchain.tuning.judging.judge import NetworkJudgement
from toolchain.tuning.result import TuneResult
from toolchain.ui.server import MOST_STREAMS

pytestmark = pytest.mark.slow

CONTRASTS = """
(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const linear = (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = numbers(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
  };
  const worst = {};
  for (const node of document.querySelectorAll("h1, h2, h3, p, dt, dd, th, td, li, span, figcaption")) {
    if (!node.textContent.trim() || !node.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(node).color), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = node.tagName + "." + node.className;
    worst[name] = Math.min(worst[name] ?? 99, ratio);
  }
  return worst;
})()
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    folder = Path(tempfile.mkdtemp(prefix="edge-toolchain-browser-"))
    with browser(folder) as opened:
        yield opened
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def page(state: Path, tab: Tab) -> Iterator[Served]:
    """Serve the page of an empty state folder; at the end the browser must not have complained."""
    assert not state.exists()
    tab.said.clear()
    with served() as found:
        yield found
        assert tab.complaints() == []
        assert set(tab.requests()) <= {found.url, f"{found.url}events"} | {
            each for each in tab.requests() if each.startswith("data:")
        }
        tab.open("about:blank", width=800)


@pytest.fixture
def busy(page: Served) -> Iterator[Served]:
    """Serve the page while commands of every kind are at work."""
    logs = scene.everything()
    yield page
    for log in logs:
        log.end(EndLine(how="done"))


@pytest.mark.parametrize("width", layout.WIDTHS)
def test_the_parts_are_where_they_were(busy: Served, tab: Tab, width: int) -> None:
    layout.opened(tab, busy.url, width=width)
    wanted = json.loads(layout.REFERENCES.read_text())[str(width)]
    found = layout.boxes(tab)
    assert found.keys() == wanted.keys()
    for name, box in found.items():
        allowed = [
            8,
            40 + wanted[name][1] * 0.1,
            8,
            12 + wanted[name][3] * 0.1,
        ]  # a little for other versions
        off = [abs(a - b) for a, b in zip(box, wanted[name], strict=True)]
        assert all(a <= b for a, b in zip(off, allowed, strict=True)), (name, box, wanted[name])
    order = [box[1] for box in found.values()]
    assert order[2:] == sorted(order[2:]), "the order on the page is that of the list"


@pytest.mark.parametrize("width", [320, 360, 768, 1080])
def test_nothing_is_wider_than_the_window(busy: Served, tab: Tab, width: int) -> None:
    layout.opened(tab, busy.url, width=width)
    assert tab.value("document.scrollingElement.scrollWidth") <= width
    tab.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.value("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_can_be_read_in_both_schemes(busy: Served, tab: Tab, dark: bool) -> None:
    layout.opened(tab, busy.url, width=1080, dark=dark)
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 24, 30)" if dark else "rgb(246, 247, 249)")
    contrasts = tab.value(CONTRASTS)
    assert len(contrasts) > 10 and min(contrasts.values()) >= 4.5, contrasts


def test_what_moves_stays_still_for_who_asks(busy: Served, tab: Tab) -> None:
    name = "getComputedStyle(document.querySelector('.state.working'), '::before').animationName"
    layout.opened(tab, busy.url, width=1080, still=True)
    assert tab.value(name) == "none"
    layout.opened(tab, busy.url, width=1080, still=False)
    assert tab.value(name) == "breathe"


def test_numbers_and_states_are_shown(busy: Served, tab: Tab) -> None:
    layout.opened(tab, busy.url, width=1080)
    text = tab.value("document.body.innerText")
    for said in (
        *("tune zoo:mobilenet", "24 / 64", "40.00 ms", "board b2 is away", "compiling 30/73 functions"),
        *("2 of 2", "gate after phase 1: 4 boards run it", "refused", "62 °C"),
        *("interrupted", "failed", "done"),
    ):
        assert said in text, said
    assert "tune zoo:mobilenet: task" in tab.value("document.getElementById('boards').innerText")
    assert tab.value("document.title") == "(3) edge-toolchain"
    assert tab.value("document.querySelector('#now progress:not([hidden])').value") == 30
    label = tab.value("document.querySelector('svg.curve').getAttribute('aria-label')")
    assert label.startswith("sum of the best times over 24 trials: 40.00 ms without tuning")


def test_names_with_markup_are_texts(busy: Served, tab: Tab) -> None:
    layout.opened(tab, busy.url, width=1080)
    assert tab.value("document.body.textContent").count(scene.EVIL) >= 3
    assert tab.value("document.images.length") == 0
    assert tab.value("document.title") != "owned"


def test_the_keyboard_reaches_everything(busy: Served, tab: Tab) -> None:
    layout.opened(tab, busy.url, width=1080)
    tab.press("Tab")
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value("document.activeElement.getBoundingClientRect().x") >= 0, (
        "it is seen once it has the focus"
    )
    tab.press("Enter")
    assert tab.value("document.activeElement.id") == "main"
    seen = []
    for _ in range(9):
        tab.press("Tab")
        seen.append(tab.value("document.activeElement.tagName + '.' + document.activeElement.className"))
        assert tab.value("getComputedStyle(document.activeElement).outlineStyle") == "solid", seen
    assert seen.count("SUMMARY.") == 6 and seen.count("DIV.scroll") == 2 and "DIV.scroll tall" in seen
    tab.value("document.querySelector('#now summary').focus()")
    tab.press("Enter")
    assert tab.value("document.querySelector('#now > details').open") is False


def test_a_command_appears_and_moves_to_what_has_ended(page: Served, tab: Tab) -> None:
    tab.open(page.url, width=1080)
    tab.until(layout.LIVE)
    assert tab.value("document.getElementById('nothing').checkVisibility()")
    log = EventLog()
    log.begin("build", "small.onnx for rk3399")
    tab.until("document.querySelectorAll('#now > details').length === 1")
    assert tab.value("document.getElementById('announce').textContent") == "build small.onnx for rk3399 began"
    assert not tab.value("document.getElementById('nothing').checkVisibility()")
    log.write(StepLine(text="linking"))
    tab.until("document.getElementById('now').innerText.includes('linking')")
    log.end(EndLine(how="failed", message="the disk is full"))
    tab.until("document.querySelectorAll('#ended > details').length === 1")
    tab.until("document.getElementById('announce').textContent === 'build small.onnx for rk3399: failed'")
    assert tab.value("document.querySelector('#ended > details').open") is False
    assert "the disk is full" in tab.value("document.getElementById('ended').textContent")


def test_the_focus_stays_with_a_command_that_ends(busy: Served, tab: Tab) -> None:
    layout.opened(tab, busy.url, width=1080)
    log = EventLog()
    log.begin("bench", "small.bundle", ("local",))
    tab.until("document.querySelectorAll('#now > details').length === 4")
    tab.value("document.querySelector('#now summary').focus()")
    log.end(EndLine(how="done"))
    tab.until("document.querySelectorAll('#now > details').length === 3")
    assert tab.value("document.activeElement.closest('#ended') !== null")
    assert "bench small.bundle" in tab.value("document.activeElement.textContent")


def test_the_verdict_has_the_last_word(page: Served, tab: Tab) -> None:
    """The tasks alone are 1.25 times as fast, and the network is not: builds use the defaults."""
    judged = NetworkJudgement({"w": 0}, {}, 2.5, 2.5)
    verdict = TuneResult([], 1.0, network=judged).verdict
    task = ListedTask(id="w", name="fused_conv2d", weight=1, flops=1)
    log = EventLog()
    log.begin("tune", "small.onnx", ("local",))
    log.write(TasksLine(tasks=(task,), trials=8))
    log.write(TrialLine(task="w", stage="default", number=0, ms=0.02, best_ms=0.02, board="local"))
    log.write(TrialLine(task="w", stage="search", number=1, ms=0.016, best_ms=0.016, board="local"))
    tab.open(page.url, width=1080)
    facts = "document.querySelector('.facts').innerText.split(String.fromCharCode(10)).join(' | ')"
    tab.until("document.querySelector('.facts')?.innerText.includes('1.25\u00d7')")
    assert "now | 16.00 µs | speed-up so far | 1.25\u00d7" in tab.value(facts)
    log.write(
        VerdictLine(
            text=verdict.text, in_network=True, before_ms=verdict.before_ms, after_ms=verdict.after_ms
        )
    )
    log.end(EndLine(how="done"))
    tab.until("document.querySelectorAll('#ended > details').length === 1")
    tab.value("document.querySelector('#ended > details').open = true")
    tab.until("document.querySelector('#ended .facts').innerText.includes('1.00\u00d7')")
    assert "the network, untuned | 2.500 ms" in tab.value(facts) and "| speed-up | 1.00\u00d7" in tab.value(
        facts
    )
    assert tab.value("document.querySelector('#ended .said:not([hidden])').textContent") == verdict.text
    assert verdict.text.startswith("network: the defaults stay: ")


def test_times_are_shown_as_in_the_terminal(page: Served, tab: Tab) -> None:
    shown = {value: text for value, text in TIMES.items() if value is None or math.isfinite(value)}
    log = EventLog()
    log.begin("tune", "small.onnx")
    tasks = tuple(ListedTask(id=f"t{n}", name="conv", weight=1, flops=1) for n in range(len(shown)))
    log.write(TasksLine(tasks=tasks, trials=8))
    for task, value in zip(tasks, shown, strict=True):
        log.write(TrialLine(task=task.id, stage="default", number=0, ms=value, best_ms=value))
    tab.open(page.url, width=1080)
    column = "[...document.querySelectorAll('#now tbody tr td:nth-child(4)')].map((each) => each.textContent)"
    tab.until(f"{column}.length === {len(shown)} && {column}.at(-1) !== '{UNKNOWN}'")
    assert tab.value(column) == list(shown.values())
    log.end(EndLine(how="done"))


@pytest.mark.parametrize(
    ("boards", "described", "last"),
    [
        (1, "1 board: 0 with the release, 0 failed, 0 at work, 1 waiting", "field-0"),
        (101, "101 boards: 0 with the release, 0 failed, 0 at work, 101 waiting", "… 1 more board"),
        (102, "102 boards: 0 with the release, 0 failed, 0 at work, 102 waiting", "… 2 more boards"),
    ],
)
def test_one_board_is_singular(page: Served, tab: Tab, boards: int, described: str, last: str) -> None:
    log = EventLog()
    log.begin("deploy", "camera 1.4.0", tuple(f"field-{number}" for number in range(boards)))
    tab.open(page.url, width=1080)
    tab.until("document.querySelector('svg.shares') !== null")
    assert tab.value("document.querySelector('svg.shares').getAttribute('aria-label')") == described
    assert tab.value("document.querySelector('#now tbody tr:last-child td').textContent") == last
    log.end(EndLine(how="done"))


def test_one_trial_is_singular(page: Served, tab: Tab) -> None:
    log = EventLog()
    log.begin("tune", "small.onnx")
    log.write(TasksLine(tasks=(ListedTask(id="w", name="conv", weight=1, flops=1),), trials=1))
    log.write(TrialLine(task="w", stage="default", number=0, ms=2.0, best_ms=2.0))
    log.write(TrialLine(task="w", stage="search", number=1, ms=1.5, best_ms=1.5))
    tab.open(page.url, width=1080)
    tab.until("document.querySelector('svg.curve text:last-of-type') !== null")
    label = tab.value("document.querySelector('svg.curve').getAttribute('aria-label')")
    assert label.startswith("sum of the best times over 1 trial: ")
    assert "1 trial" in tab.value(
        "[...document.querySelectorAll('svg.curve text')].map((each) => each.textContent)"
    )
    log.end(EndLine(how="done"))


def test_what_ended_on_another_day_has_its_date(page: Served, tab: Tab, state: Path) -> None:
    end = {"event": "ended", "at": 1_700_000_060.0, "how": "done"}
    write_log(
        state / "events", {**BEGAN, "at": 1_700_000_000.0}, end, name="20231114T221320000000-1-tune.jsonl"
    )
    tab.open(page.url, width=1080)
    tab.until("document.querySelector('#ended .meta') !== null")
    meta = tab.value("document.querySelector('#ended .meta').textContent")
    assert "2023" in meta and meta.endswith("· 1:00 min")


@pytest.mark.usefixtures("state")
def test_a_tab_too_many_says_so_and_comes_when_there_is_room(tab: Tab) -> None:
    """Chromium opens six connections to a host: a seventh stream would wait without a word."""
    with served() as page:
        tabs = [tab.another() for _ in range(MOST_STREAMS + 2)]
        for each in tabs[:MOST_STREAMS]:
            each.open(page.url, width=800)
            each.until(layout.LIVE)
        for each in tabs[MOST_STREAMS:]:
            each.open(page.url, width=800)
            each.until("document.getElementById('link')?.textContent.includes('open 5 times already')")
        tabs[0].close()
        tabs[MOST_STREAMS].until(layout.LIVE)
        for each in tabs[1:]:
            each.close()


@pytest.mark.usefixtures("state")
def test_the_file_that_opens_the_page_leads_there(tab: Tab) -> None:
    with served() as page, opened_page(page.url, page.port, launch=lambda url: tab.open(url, width=800)):
        tab.until(layout.LIVE)
        assert tab.value("location.href") == page.url
        tab.open("about:blank", width=800)


def test_the_page_connects_again(state: Path, tab: Tab) -> None:
    log = EventLog()
    log.begin("build", "small.onnx for rk3399")
    with served() as first:
        tab.open(first.url, width=1080)
        tab.until("document.querySelectorAll('#now > details').length === 1")
    tab.until("document.getElementById('link').textContent.startsWith('not connected')")
    log.end(EndLine(how="done"))
    with served(first.port) as second:
        assert second.url == first.url
        tab.until(layout.LIVE)
        tab.until("document.querySelectorAll('#ended > details').length === 1")
        assert tab.value("document.querySelectorAll('details').length") == 1
        tab.open("about:blank", width=800)
    assert state.exists()


@pytest.mark.usefixtures("state")
def test_the_policy_lets_no_other_script_run_and_nothing_be_fetched(tab: Tab) -> None:
    with served() as page:
        tab.open(page.url, width=1080)
        tab.until(layout.LIVE)
        added = """
        (() => {
          const script = document.createElement('script');
          script.textContent = 'window.owned = 1';
          document.body.append(script);
          document.body.insertAdjacentHTML('beforeend', '<img src="x" onerror="window.owned = 2">');
          return new Promise((after) => setTimeout(() => after(window.owned ?? 0), 300));
        })()
        """
        assert tab.value(added) == 0
        away = "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => 'refused')"
        assert tab.value(away) == "refused"
        assert sum("Content Security Policy" in each for each in tab.complaints()) >= 3
        tab.open("about:blank", width=800)


class _Elsewhere(BaseHTTPRequestHandler):
    """Another site on this host."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.usefixtures("state")
def test_another_sites_page_gets_nothing_even_with_the_address(tab: Tab) -> None:
    other = ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        with served() as page:
            for host in ("127.0.0.1", "localhost"):
                tab.open(f"http://{host}:{other.server_port}/", width=800)
                tab.until("document.title === 'elsewhere'")
                read = f"fetch('{page.url}').then((answer) => answer.text(), () => 'refused')"
                assert tab.value(read) == "refused"
                stream = f"""
                new Promise((after) => {{
                  const stream = new EventSource('{page.url}events');
                  stream.onopen = () => after('open');
                  stream.onerror = () => after('refused');
                }})
                """
                assert tab.value(stream) == "refused"
                frame = f"""
                new Promise((after) => {{
                  const frame = document.createElement('iframe');
                  frame.src = '{page.url}';
                  frame.onload = () => after(frame.contentDocument?.title ?? 'hidden');
                  document.body.append(frame);
                }})
                """
                assert tab.value(frame) == "hidden"
            assert any("X-Frame-Options" in each or "frame-ancestors" in each for each in tab.complaints())
            tab.open("about:blank", width=800)
    finally:
        other.shutdown()
        thread.join()
        other.server_close()


@pytest.mark.usefixtures("state")
def test_a_name_that_was_bound_to_loopback_is_refused(tab: Tab) -> None:
    """DNS rebinding: `evil.localhost` is 127.0.0.1 to Chromium, as an attacker's name may become."""
    with served() as page:
        tab.open(page.url.replace("127.0.0.1", "evil.localhost"), width=800)
        tab.until("document.body?.innerText.includes('under no other name')")
        tab.open("about:blank", width=800)
