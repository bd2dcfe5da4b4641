"""The documentation site: built from the repository's texts, complete, and of one piece without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag

import pytest

import toolchain
from docs.site.check import Page, problems
from tests.ui.browser import Tab, browser

ROOT = Path(__file__).parent.parent
MKDOCS = ROOT / "build/mkdocs/bin/mkdocs"
TEXTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def build(repository: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    # With `--quiet`, mkdocs does not count the warnings that `--strict` makes errors.
    assert MKDOCS.is_file(), "run make mkdocs"
    return subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", folder],
        cwd=repository,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # Material's, about what may come after mkdocs 1
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def page_of(text: Path) -> str:
    page = text.relative_to(ROOT).with_suffix(".html")
    return (page.with_name("index.html") if page.name == "README.html" else page).as_posix()


def in_navigation(site: Path) -> Iterator[str]:
    """Yield the pages that one reaches from the first by the links of the navigation."""
    waiting, seen = ["index.html"], set()
    while waiting:
        if (name := waiting.pop()) in seen:
            continue
        seen.add(name)
        yield name
        navigation = "".join(re.findall(r"<nav.*?</nav>", (site / name).read_text(), re.DOTALL))
        for _, address in Page(navigation).addresses:
            if (target := urldefrag(address).url) and ":" not in target:
                waiting.append(os.path.normpath(Path(name).parent / target))


@pytest.mark.slow
def test_each_text_is_a_page_that_the_navigation_reaches(site: Path) -> None:
    assert {page_of(text) for text in TEXTS} <= set(in_navigation(site))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pages", "kind"),
    [
        ("tutorials/*.md", "Tutorials"),
        ("howto/*.md", "How-to guides"),
        ("reference/*.md", "Reference"),
        ("*-format.md", "Reference"),
        ("benchmarks*.md", "Benchmarks"),
        ("decisions/*.md", "Decisions"),
        ("architecture.md", "Background"),
    ],
)
def test_a_page_stands_among_those_of_its_kind(site: Path, pages: str, kind: str) -> None:
    found = sorted((ROOT / "docs").glob(pages))
    assert found
    for text in found:
        page = (site / page_of(text)).read_text()
        (tab,) = re.findall(r'<li class="md-tabs__item md-tabs__item--active">(.*?)</li>', page, re.DOTALL)
        assert re.sub(r"<[^>]+>", "", tab).strip() == kind, text.name


@pytest.mark.slow
def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert list(problems(site)) == []


@pytest.mark.slow
def test_each_page_says_the_version(site: Path) -> None:
    pages = [path for path in site.rglob("*.html")]
    assert len(pages) > len(TEXTS)
    for page in pages:
        text = page.read_text()
        for place in ("header", "footer"):
            (part,) = re.findall(rf'<{place} class="md-.*?</{place}>', text, re.DOTALL)
            assert f"edge-toolchain {toolchain.__version__}" in part, f"{page}: {place}"


@pytest.mark.slow
def test_pages_are_light_or_dark(site: Path) -> None:
    schemes = re.findall(r'media="([^"]*)" data-md-color-scheme="(\w+)"', (site / "index.html").read_text())
    assert ("(prefers-color-scheme: light)", "default") in schemes
    assert ("(prefers-color-scheme: dark)", "slate") in schemes


@pytest.mark.slow
def test_generated_reference_looks_as_it_is_meant(site: Path) -> None:
    page = (site / "docs/reference/cli.html").read_text()
    assert "[auto|packed|NCHW|NHWC]" in page
    navigation = re.sub(r"<[^>]+>|\s", " ", page.partition("<article")[0])
    assert "The command line" in " ".join(navigation.split())
    assert " Cli " not in navigation


@pytest.mark.slow
def test_search_needs_no_server(site: Path) -> None:
    index = (site / "search/search_index.js").read_text()
    found = {each["location"] for each in json.loads(index.removeprefix("var __index = "))["docs"]}
    assert {page_of(text) for text in TEXTS} - {"index.html"} <= found
    assert not any(location.startswith(("docs/examples/", "toolchain/")) for location in found)
    page = site / "docs/howto/int8.html"
    text = page.read_text()
    (settings,) = re.findall(r'<script id="__config" type="application/json">(.*?)</script>', text)
    assert (page.parent / json.loads(settings)["search"]).resolve().is_file()
    assert re.search(r'<script src="[^"]*/iframe-worker\.js">', text)


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Tab]:
    """Open a browser without a network."""
    with browser(tmp_path) as opened:
        off = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        opened.call("Network.emulateNetworkConditions", **off)
        yield opened


@pytest.mark.slow
def test_a_search_from_the_disk_finds_the_page_about_a_word(site: Path, tab: Tab) -> None:
    first, rack = site / "index.html", site / "docs/howto/rack.html"
    tab.open(first.as_uri(), width=1300)
    for page in (first, rack):  # of the site's folder, and of one in it
        tab.until(f"location.pathname === {json.dumps(str(page))} && document.readyState === 'complete'")
        tab.value("document.querySelector('.md-search__input').focus()")
        tab.type("labgrid")
        found = "document.querySelector('.md-search-result__item > a')?.pathname"
        tab.until(f"{found} === {json.dumps(str(rack))}")
        if page == first:
            tab.press("Enter")
    tab.until("document.querySelector('article mark')?.textContent === 'labgrid'")
    assert {address.partition(":")[0] for address in tab.requests()} == {"file", "data"}
    assert tab.complaints() == []


@pytest.mark.slow
def test_a_link_to_source_leads_to_a_page_that_shows_it(site: Path) -> None:
    page = (site / "docs/howto/own-program.html").read_text()
    assert 'href="../examples/edge_example.c.html"' in page
    shown = (site / "docs/examples/edge_example.c.html").read_text()
    assert "edge_open" in re.sub(r"<[^>]+>", "", shown)
    assert "<code>docs/examples/edge_example.c</code>" in shown


@pytest.mark.slow
def test_a_link_to_a_folder_leads_to_its_index(site: Path) -> None:
    assert 'href="decisions/index.html"' in (site / "docs/architecture.html").read_text()
    listed = (site / "docs/decisions/index.html").read_text()
    assert all(f'href="{path.stem}.html"' in listed for path in ROOT.glob("docs/decisions/0*.md"))


@pytest.mark.slow
def test_a_text_without_a_place_and_links_into_nothing_end_the_build(tmp_path: Path) -> None:
    for name in ("mkdocs.yml", "toolchain/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docs/site", tmp_path / "docs/site")
    (tmp_path / "docs/odd").mkdir()
    (tmp_path / "docs/odd/page.md").write_text(
        "# Odd\n\n[gone](../gone.md), [on CHANGELOG](../../CHANGELOG.md#gone)\n"
    )
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n")
    (tmp_path / "CONTRIBUTING.md").write_text("# Contributing\n")
    (tmp_path / "README.md").write_text("# A product\n\n[how](docs/howto) and [code](toolchain/gone.py)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert re.search(r'not included in the "nav" configuration:\s*- docs/odd/page.md', done.stderr)
    assert "contains a link '../gone.md'" in done.stderr
    assert "CHANGELOG.md#gone" in done.stderr
    assert (
        "contains a link 'docs/howto'" in done.stderr
        or "contains an unrecognized relative link 'docs/howto'" in done.stderr
    )
    assert "'toolchain/gone.py'" in done.stderr


FINE = '<html><p id="here">x</p><a href="b.html#there">b</a><a href="#here"></a><a href="https://tvm.apache.org">t</a></html>'


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (FINE, None),
        ('<a href="c.html">c</a>', "no such file"),
        ('<a href="folder">a folder opens no page from a disk</a>', "no such file"),
        ('<a href="b.html#nowhere">b</a>', "no such anchor"),
        ('<a href="#nowhere">here</a>', "no such anchor"),
        ('<img src="gone.svg">', "no such file"),
        ('<script src="https://cdn.example/x.js"></script>', "not on this site"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "not on this site"),
        ('<a href="javascript:x()">x</a>', "not on this site"),
        ("<p>Three things:\n- one\n- two</p>", "empty line before"),
        ("<p>A table:\n| a | b |</p>", "empty line before"),
        ("<p>Two <b>things</b>:\n1. one</p>", "empty line before"),
        ("<p>One.</p><p>in the year\n1984. Then</p><pre>\n- code</pre>", None),
    ],
)
def test_what_is_wrong_with_a_page_is_found(tmp_path: Path, page: str, told: str | None) -> None:
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>')
    (tmp_path / "folder").mkdir()
    found = list(problems(tmp_path))
    assert ([told in problem for problem in found] == [True]) if told else found == []


@pytest.mark.parametrize(
    "style",
    [
        '@import "x.css"',
        "a { background: url(https://cdn.example/x.png) }",
        "b { src: url('//cdn.example/x') }",
    ],
)
def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path, style: str) -> None:
    (tmp_path / "x.css").write_text(style)
    assert len(list(problems(tmp_path))) == 1
