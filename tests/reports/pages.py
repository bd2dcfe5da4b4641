"""What a browser makes of a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """What a browser would make of a page: its texts, tags, and whatever it would fetch."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "data", "action") and not (value or "").startswith("#"):
                self.fetched.append(str(value))
            if name == "id":
                self.ids.append(str(value))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def assert_stands_alone(html: str, figures: int) -> None:
    """Make sure that a page fetches and runs nothing, and that its figures keep to themselves."""
    page = Page(html)
    assert page.fetched == []
    assert "script" not in page.tags
    assert not re.search(r"url\((?!#)|@import", html)
    assert page.tags.count("svg") == figures
    assert len(page.ids) == len(set(page.ids))  # figures must not take each other's marks and titles
