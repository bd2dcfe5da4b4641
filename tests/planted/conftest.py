"""The board's comparison, as tests/field asks it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.field.program import Checks, sanitized
from tests.fuzz.child import Child


@pytest.fixture(scope="session")
def checks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checks]:
    with Child([sanitized()], tmp_path_factory.mktemp("planted") / "words") as child:
        yield Checks(child)
