"""The program that answers as a board would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.field.program import Checks, sanitized
from tests.fuzz.child import Child
from tests.releases.conftest import bundle, signed

__all__ = ["bundle", "signed"]


@pytest.fixture(scope="session")
def checks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checks]:
    with Child([sanitized()], tmp_path_factory.mktemp("field") / "words") as child:
        yield Checks(child)
