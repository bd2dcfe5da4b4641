"""A cache folder of the test's own, in which no function was compiled before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache folder without objects; what libraries are linked with is shared."""
    shared, folder = Path(os.environ["TOOLCHAIN_CACHE_DIR"]), tmp_path / "cache"
    folder.mkdir()
    for name in ("stubs", "zig"):
        (shared / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(shared / name)
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(folder))
    return folder
