"""Renders HTML pages from templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolchain.foreign import printable_lines
from toolchain.quantities import UNKNOWN, shown_ms


def render(template: str, **values: Any) -> str:
    """Return a page; every value is escaped except plots, which templates insert unchanged.

    Parameters
    ----------
    template
        Name of a file of this folder.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ms"] = shown_ms
    environment.filters["name"] = model_name
    page = environment.get_template(template).render(speed_up=_speed_up, **values)
    return printable_lines(page)  # names are escaped for HTML; a browser obeys characters that turn text, too


def model_name(model: str) -> str:
    """Return a model's name for titles: a file's or folder's without the folders above it."""
    return Path(model).name if model.startswith("/") else model


def _speed_up(before: float | None, after: float | None) -> str:
    return f"{before / after:.2f}×" if before and after else UNKNOWN  # noqa: RUF001 (as people write it)
