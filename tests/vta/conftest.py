"""One simulator for all tests of a module: starting it costs more than a program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolchain.vta.machine.simulator import Simulator


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    """Return this host's edge-rt as the machine."""
    with Simulator() as running:
        yield running
