"""The changelog: a version is released if it has a section, and if nothing above it is unreleased."""

from __future__ import annotations

import re
from pathlib import Path

_SECTION = re.compile(
    r"^## \[([^\]]+)\](?: - (\d{4}-\d\d-\d\d))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


def problem(changelog: Path, version: str) -> str:
    """Return why a version cannot be released with this changelog; empty if it can."""
    sections = {name: (date, text.strip()) for name, date, text in _SECTION.findall(changelog.read_text())}
    if version not in sections:
        return f"{changelog.name} has no section [{version}]: write what users would notice"
    date, text = sections[version]
    if not date or not text:
        return f"{changelog.name}: the section [{version}] lacks its {'text' if date else 'date'}"
    if sections.get("Unreleased", ("", ""))[1]:
        return f"{changelog.name}: move what stands under [Unreleased] into [{version}]"
    return ""
