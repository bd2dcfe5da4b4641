"""The network, loaded once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolchain.models.load import Model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return the network of `network.py`."""
    from tests.building.network import written
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    return load_model(str(written(tmp_path_factory.mktemp("network"))), ModelOptions())
