"""A connected engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolchain.images.engine import Engine, connect


@pytest.fixture
def engine() -> Iterator[Engine]:
    with connect() as connected:
        yield connected
