"""Put what a script wrote between two markers of a text."""

from __future__ import annotations

from pathlib import Path

from toolchain.files.atomic import write_text

BEGIN, END = "<!-- begin: {name}, written by {by} -->", "<!-- end: {name} -->"


def fill(text: str, name: str, content: str, by: str) -> str:
    """Return `text` with `content`, of the script `by`, between the markers of `name`.

    Raises
    ------
    ValueError
        It has no such markers, or in the wrong order.
    """
    begin, end = BEGIN.format(name=name, by=by), END.format(name=name)
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no lines {begin!r} … {end!r}")
    return f"{before}{begin}\n\n{content.strip()}\n\n{end}{after}"


def write(path: Path, parts: dict[str, str], by: str) -> None:
    """Fill the parts of a file; `by` is the script that its markers name."""
    text = path.read_text()
    for name, content in parts.items():
        text = fill(text, name, content, by)
    write_text(path, text)
