"""`python -m tests.toy.command ARGUMENTS`: the command line, with the toy among its backends."""

from __future__ import annotations

import pytest

from tests.toy.backend import OFFER
from toolchain.backends import table
from toolchain.devices.kind import DeviceKind
from toolchain.devices.table import OWN


def add_toy(patch: pytest.MonkeyPatch) -> None:
    """Let the toy be one of the backends."""
    patch.setattr(table, "BACKENDS", [*table.BACKENDS, OFFER])
    patch.setitem(OWN, "toy", DeviceKind(name="toy"))


if __name__ == "__main__":
    from toolchain.cli import main

    add_toy(pytest.MonkeyPatch())
    main()
