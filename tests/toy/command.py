"""`python -m tests.toy.command ARGUMENTS`: the command line, with the toy among its backends."""

from __future__ import annotations

import pytest

from tests.toy.backend import OFFER
from toolchain import profiles
from toolchain.backends import table


def add_toy(patch: pytest.MonkeyPatch) -> None:
    """Let the toy be one of the backends."""
    patch.setattr(table, "BACKENDS", [*table.BACKENDS, OFFER])
    patch.setattr(profiles, "DEVICE_KINDS", (*profiles.DEVICE_KINDS, "toy"))


if __name__ == "__main__":
    from toolchain.cli import main

    add_toy(pytest.MonkeyPatch())
    main()
