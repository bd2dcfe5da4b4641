"""Files and names of code that the how-tos mention are there: a rename reaches the pages too."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.howto.page import ROOT

PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))
PATH = re.compile(r"`((?:toolchain|tests|docs|tools|stubs|benchmarks)/[\w./-]+)`")
NAME = re.compile(r"`_?((?:[A-Z][a-z0-9]+){1,}[A-Z]?\w*)(?:\[\w+\])?`")
PARTS = ("toolchain", "tests", "docker", "tools")


@cache
def words_of_code() -> set[str]:
    """Return every name, and every other word, of all code but this file's."""
    suffixes = {".py", ".cc", ".h", ".toml", ".txt"}
    files = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.suffix in suffixes]
    texts = (path.read_text(errors="ignore") for path in files if path != Path(__file__).resolve())
    return {word for text in texts for word in re.findall(r"\w+", text)}


def written(text: str) -> set[str]:
    """Return the files that a page says to write: their text follows, or they begin a block."""
    return {*re.findall(r"`([\w/.]+)`:\n\n```", text), *re.findall(r"```\w+\n// ([\w/.]+):", text)}


def missing_files(text: str) -> list[str]:
    """Return the files that a page names and that are not there."""
    named = {name.rstrip("/") for name in PATH.findall(text)} - written(text)
    return [name for name in sorted(named) if not (ROOT / name).exists()]


def missing_names(text: str) -> list[str]:
    """Return the classes that a page names outside of its blocks and that no code has."""
    blocks = "".join(re.findall(r"```.*?```", text, re.DOTALL))
    named = set(NAME.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    return sorted(named - words_of_code() - set(re.findall(r"\w+", blocks)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    assert (missing_files(text), missing_names(text)) == ([], [])


def test_what_is_gone_is_seen() -> None:
    new = "`toolchain/a/new.py`:\n\n```python\nclass MyNewClass: ...\n```\n"
    page = f"{new}`MyNewClass`, `toolchain/no_such.py`, `NoSuchClass[P]`, `Space[P]`, `tests/howto`"
    assert missing_files(page) == ["toolchain/no_such.py"]
    assert missing_names(page) == ["NoSuchClass"]
