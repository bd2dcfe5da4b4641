"""The code of a how-to page, and a package in which its files stand where the page puts them."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# A file's name at the end of a line, and its text in the block that follows.
_FILE = re.compile(r"`(toolchain/[\w/]+\.py)`:\n\n```python\n(.*?)```", re.DOTALL)


def blocks(page: str, language: str = "python") -> list[str]:
    """Return the page's blocks of code in a language, in their order."""
    text = (ROOT / "docs" / "howto" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_block(text: str, **names: Any) -> dict[str, Any]:
    """Run a block as a module of its own; return its names."""
    scope: dict[str, Any] = {"__name__": "a_block_of_a_page", **names}
    exec(compile(text, "a block", "exec", dont_inherit=True), scope)  # noqa: S102 - ours
    return scope


@contextmanager
def files_planted(page: str, folder: Path) -> Iterator[list[str]]:
    """Add the modules that the page says to write; yield their names. The repository stays as it is.

    Each is written below `folder` and found by the package that it belongs to, until the end.
    """
    text = (ROOT / "docs" / "howto" / page).read_text()
    planted, modules = [], set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for name, code in _FILE.findall(text):
            path = Path(name)
            if (ROOT / path).exists():
                continue  # a part of it is shown
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(code)
            home = next(parent for parent in path.parents if (ROOT / parent).is_dir())
            package = importlib.import_module(".".join(home.parts))
            patch.setattr(package, "__path__", [*package.__path__, str(folder / home)])
            planted.append(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
        importlib.invalidate_caches()
        try:
            yield planted
        finally:
            for name in set(sys.modules) - modules:
                if name in planted:
                    parent, _, own = name.rpartition(".")
                    sys.modules.pop(name)
                    patch.delattr(sys.modules.get(parent, sys), own, raising=False)
    importlib.invalidate_caches()
