"""Every network on every class: built, verified, timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.boards.board import Board
from toolchain.boards.inventory import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.zoo import ZOO

pytestmark = [pytest.mark.full, pytest.mark.slow]

MACHINES = {"x86_64": "x86_64", "rk3399": "aarch64", "pynq": "armv7l"}
PARAMETERS = {"mobilenet": 4.2e6, "resnet-18": 11.7e6, "squeezenet_v1.1": 1.24e6}  # as published


def test_every_network_of_the_zoo_is_here() -> None:
    assert set(ZOO) == set(PARAMETERS)


@pytest.fixture
def board(class_name: str, request: pytest.FixtureRequest) -> Board:
    """Return a board of the class: this host, or an emulated one."""
    if class_name == "x86_64":
        return find_board("local")
    found: Board = request.getfixturevalue(class_name)
    return found


@pytest.mark.parametrize("class_name", MACHINES)
@pytest.mark.parametrize("name", PARAMETERS)
def test_it_is_built_for_the_class_and_verified(
    name: str, class_name: str, board: Board, tmp_path: Path
) -> None:
    model = load_model(f"zoo:{name}", ModelOptions())
    result = build(model, find_target(class_name), None, tmp_path)
    bundle = read_bundle(result.bundle)
    assert bundle.library[:4] == b"\x7fELF"
    assert len(bundle.library) > 4 * PARAMETERS[name]  # the weights are inside
    assert bundle.manifest.board_class == class_name
    found = verify_bundle(bundle, board)
    found.check()
    document = found.to_json()
    assert document["machine"] == MACHINES[class_name]
    assert document["emulated"] is (class_name != "x86_64")
    assert document["tolerance"] == 1e-3
    for output in document["outputs"]:
        assert output["passed"]
        assert output["shape"][0] == 1
        assert output["max_rel_error"] < 1e-4  # an order below the tolerance, all rounding of float32
