"""What the documentation says is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate import PAGES, REFERENCE
from toolchain.cli.root import COMMANDS
from toolchain.profiles import class_names

ROOT = Path(__file__).parent.parent
TEXTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


@pytest.mark.parametrize("name", PAGES)
def test_reference_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text() == PAGES[name](), "stale: run `make docs`"


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(text: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text()):
        assert (text.parent / link).exists(), f"{text}: {link}"


def test_every_text_is_reached_from_the_readme() -> None:
    waiting, reached = [ROOT / "README.md"], set()
    while waiting:
        if (text := waiting.pop()) not in reached:
            reached.add(text)
            for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text()):
                target = (text.parent / link).resolve()
                waiting += {target, target / "README.md"} & set(TEXTS)
    assert not [str(text.relative_to(ROOT)) for text in TEXTS if text not in reached]


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_number_and_a_status(decision: Path) -> None:
    number = decision.name[:4].lstrip("0")
    title, empty, status, *_ = decision.read_text().split("\n")
    assert title.startswith(f"# {number}. ")
    assert not empty
    assert status.startswith("**Status:** ")
    problem = problem_of_status(status.removeprefix("**Status:** "), decision)
    assert problem is None, f"{decision.name}: {problem}"


def problem_of_status(status: str, decision: Path) -> str | None:
    if status == "accepted":
        return None
    if not (link := re.fullmatch(r"superseded by \[(\d+)\]\((\d{4}-[a-z0-9-]+\.md)\)", status)):
        return f"{status!r} is neither `accepted` nor `superseded by [N](00NN-….md)`"
    if not (decision.parent / link[2]).is_file():
        return f"there is no {link[2]}"
    if int(link[1]) != int(link[2][:4]) or link[2] == decision.name:
        return f"{link[1]} is not the number of another decision, {link[2]}"
    return None


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("Accepted", "neither"),
        ("", "neither"),
        ("superseded by 19", "neither"),
        ("superseded by [19](0019-gone.md)", "no 0019-gone.md"),
        ("superseded by [18](0019-generated-cpu-code.md)", "18 is not the number"),
        ("superseded by [15](0015-default-schedules-by-rows.md)", "another"),
    ],
)
def test_a_wrong_status_is_found(status: str, problem: str) -> None:
    decision = ROOT / "docs/decisions/0015-default-schedules-by-rows.md"
    assert problem in (problem_of_status(status, decision) or "")


def test_the_index_of_decisions_has_them_all() -> None:
    rows, _, gaps = (ROOT / "docs/decisions/README.md").read_text().partition("## Numbers without a page")
    index = re.findall(r"^\| (\d+) \| \[(.+?)\]\(([^)]+)\) \| (.+?) \| .+ \|$", rows, re.MULTILINE)
    expected = []
    for decision in DECISIONS:
        title, _, status, *_ = decision.read_text().split("\n")
        number, _, name = title.removeprefix("# ").partition(". ")
        expected.append((number, name, decision.name, status.removeprefix("**Status:** ")))
    assert index == expected
    numbers = {int(number) for number, *_ in expected}
    missing = re.findall(r"^\| (\d+) \| .+ \|$", gaps, re.MULTILINE)
    assert set(map(int, missing)) == set(range(1, max(numbers) + 1)) - numbers, "say why there is no page"


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_the_texts_exist(text: Path) -> None:
    typed = re.findall(r"(?:^ {4}|`)toolchain ([a-z-]+)", text.read_text(), re.MULTILINE)
    assert set(typed) <= set(COMMANDS)


def test_make_verbs_in_the_texts_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z-]+%?):", makefile, re.MULTILINE))
    for text in TEXTS:
        for verb in re.findall(r"(?:^ {4}|`)make ([a-z][a-z0-9-]*)", text.read_text(), re.MULTILINE):
            assert verb in verbs or verb.split("-")[0] + "-%" in verbs, f"{text}: make {verb}"


def test_readme_names_every_board_class() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(name in readme for name in class_names())


def test_the_architecture_has_every_room_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## The rooms")[2].partition("\n## ")[0]
    told = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    there = {path.stem for path in (ROOT / "toolchain").iterdir() if not path.name.startswith(("_", "py."))}
    assert told == there - {"native"}  # which stands with `runtime`


def test_files_that_the_architecture_names_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    for name in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", page):
        folders = (ROOT, ROOT / "toolchain", ROOT / "toolchain/models", ROOT / "toolchain/backends/packed")
        assert any((folder / name).is_file() for folder in folders), name


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if text.parent.name == "howto"], ids=lambda path: path.stem
)
def test_files_that_a_how_to_names_are_there_or_written_by_it(text: Path) -> None:
    page = text.read_text()
    named = set(re.findall(r"`((?:toolchain|tests|tools|benchmarks|docs)/[\w/.-]*\w)`", page))
    shown = set(re.findall(r"`([\w/]+\.py)`:\n\n```python", page))
    missing = {name for name in named - shown if not (ROOT / name).exists()}
    assert not missing
