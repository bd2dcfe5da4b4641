"""Checks a built site: where links lead, what is loaded from elsewhere, and lists that became paragraphs.

`python docs/site/check.py build/site` prints what is wrong and ends with 1 if there is something.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = ("action", "data", "href", "poster", "src", "srcset")
FROM_ELSEWHERE = re.compile(r"@import|url\(\s*['\"]?(?:https?:)?//|<[^>]+\b(?:href|src)=['\"](?:https?:)?//")
"""What a style sheet or a picture loads from a server."""

LOST = re.compile(r"<p>(?:(?!</p>).)*?\n(?:[-*+] |1\. |\|)", re.DOTALL)
"""A list or table that Python-Markdown took for text: it wants an empty line before."""


class Page(HTMLParser):
    """The anchors of a page, and the addresses in it with their tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag has."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ADDRESSES:
                self.addresses.append((tag, value or ""))


def problems(site: Path) -> Iterator[str]:
    """Yield a line for each thing that is wrong with the site in a folder."""
    texts = {path: path.read_text() for path in sorted(site.rglob("*.html"))}
    pages = {path: Page(text) for path, text in texts.items()}
    for path, page in pages.items():
        name = path.relative_to(site)
        for tag, address in page.addresses:
            if problem := _problem_of(tag, address, path, site, pages):
                yield f"{name}: <{tag}> {address}: {problem}"
        for lost in LOST.findall(texts[path]):
            yield f"{name}: a list or table without an empty line before it: {lost[-60:]!r}"
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.svg")]):
        for found in FROM_ELSEWHERE.findall(path.read_text()):
            yield f"{path.relative_to(site)}: loads from elsewhere: {found}"


def _problem_of(tag: str, address: str, path: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        allowed = ("http", "https", "mailto") if tag == "a" else ("data",)
        return None if parts.scheme in allowed else "is not on this site"
    target = path
    if parts.path:
        folder = site if parts.path.startswith("/") else path.parent  # only 404.html begins at the top
        target = (folder / unquote(parts.path).lstrip("/")).resolve()
    if not target.is_file():
        return "there is no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "the page has no such anchor"
    return None


def main() -> int:
    """Check the site in the folder that the command line names."""
    found = list(problems(Path(sys.argv[1]).resolve()))
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"{sys.argv[1]}: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
