"""clang-tidy finds nothing in edge-rt's sources, but for what clang-tidy.yaml leaves out and says why."""

from __future__ import annotations

import pytest

from tests.fuzz import tidy

pytestmark = pytest.mark.slow  # it reads all of edge-rt


def test_clang_tidy_finds_nothing() -> None:
    assert tidy.findings() == []
