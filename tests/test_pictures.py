"""Pictures of the documentation are drawn from what they show, and readable by everybody."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.draw import FOLDER, PICTURES, WAY, house

SVG = "{http://www.w3.org/2000/svg}"
ROOT = Path(__file__).parent.parent


@pytest.fixture(params=PICTURES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_picture_is_current(name: str) -> None:
    assert (FOLDER / name).read_text() == PICTURES[name](), "stale: run `make docs`"


def test_a_picture_tells_who_cannot_see_it_what_it_shows(name: str) -> None:
    drawn = ElementTree.parse(FOLDER / name).getroot()  # noqa: S314
    label = {drawn.find(f"{SVG}{part}").get("id") for part in ("title", "desc")}
    assert drawn.get("role") == "img"
    assert set(drawn.get("aria-labelledby").split()) == label
    for text in drawn.iter(f"{SVG}text"):  # the terminal's title and prompt are in the title
        shown = text.text.replace("\N{NO-BREAK SPACE}", " ").strip()
        told = drawn.findtext(f"{SVG}title") + drawn.findtext(f"{SVG}desc")
        assert shown in ("imports", "…", "$ make demo") or shown in told


def test_a_picture_loads_nothing(name: str) -> None:
    drawn = (FOLDER / name).read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in drawn
    assert "@import" not in drawn


def test_the_way_leads_through_rooms_of_the_house() -> None:
    rooms = {room for layer in house() for room in layer}
    assert {room for room, _ in WAY} <= rooms
    assert rooms <= {path.stem for path in (ROOT / "toolchain").iterdir()}


def test_the_terminal_shows_the_last_lines_of_the_text() -> None:
    drawn = ElementTree.parse(FOLDER / "demo.svg").getroot()  # noqa: S314
    shown = [text.text.replace("\N{NO-BREAK SPACE}", " ") for text in drawn.iter(f"{SVG}text")]
    printed = (FOLDER / "demo.txt").read_text().splitlines()
    lines = shown[shown.index("…") + 1 :]
    assert len(lines) > 10
    assert lines == printed[-len(lines) :]
