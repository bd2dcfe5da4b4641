"""Libraries that stand for the board's while linking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.configuration import settings as config
from toolchain.linking.linker import GLIBC_LIBC, GLIBC_LIBM
from toolchain.linking.lld import ensure_stubs

pytestmark = pytest.mark.slow


def test_stubs_are_made_once(
    glibc_workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = glibc_workshop
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    config.configuration.cache_clear()
    first = ensure_stubs(workshop.arch, "2.27")
    times = [path.stat().st_mtime_ns for path in first]
    assert [path.name for path in first] == [GLIBC_LIBM, GLIBC_LIBC]
    assert ensure_stubs(workshop.arch, "2.27") == first
    assert [path.stat().st_mtime_ns for path in first] == times
    assert set(ensure_stubs(workshop.arch, "2.31")).isdisjoint(first)
    assert sorted(path.name for path in first[0].parent.iterdir()) == [GLIBC_LIBC, GLIBC_LIBM]
