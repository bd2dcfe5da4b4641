"""One PostgreSQL server for all tests of a run that do no harm to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.records.postgres.server import Postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    from tests.records.postgres.server import postgres

    with postgres() as running:
        yield running


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> str:
    """Return the address of a database of the test's own."""
    return postgres_server.new()
