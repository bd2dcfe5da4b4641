"""Every network on every class: built, verified, timed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.pairs import EVERY_NETWORK_ON, MACHINES, PAIRS
from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.inspect import count_parameters
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.zoo import ZOO

pytestmark = pytest.mark.slow

FOUR = ("mobilenet", "resnet-18", "squeezenet_v1.1", "resnet-50")
SMALL = {
    "inception_v3": (1, 3, 75, 75),
    "resnet3d-18": (1, 3, 4, 32, 32),
    **{f"vgg-{layers}": (1, 3, 32, 32) for layers in (11, 13, 16, 19)},
}
"""Inputs for quick builds, the smallest that show every layer at work; all others (1, 3, 64, 64)."""


@pytest.fixture
def board(class_name: str, request: pytest.FixtureRequest) -> Board:
    """Return a board of the class: this host, or an emulated one."""
    if class_name == "x86_64":
        return find_board("local")
    fixture = class_name if class_name in EVERY_NETWORK_ON else "started"
    found: Board = request.getfixturevalue(fixture)
    return found


@pytest.fixture
def started(class_name: str) -> Iterator[Board]:
    """Yield an emulated board of the class for one test."""
    yield emulated.start(class_name, kind="process", name=f"one-network-{class_name}")
    emulated.stop(f"one-network-{class_name}")


@pytest.mark.parametrize("class_name", ["x86_64"])
@pytest.mark.parametrize("name", FOUR)
def test_four_networks_are_built_and_verified(
    name: str, class_name: str, board: Board, tmp_path: Path
) -> None:
    check(name, small(name), class_name, board, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(("name", "class_name"), PAIRS)
def test_it_is_built_for_the_class_and_verified(
    name: str, class_name: str, board: Board, tmp_path: Path
) -> None:
    # An emulated board takes minutes for an image that this host computes in a second.
    whole = class_name == "x86_64" or ZOO[name].macs < 2e9
    check(name, ZOO[name].shape if whole else small(name), class_name, board, tmp_path)


def small(name: str) -> tuple[int, ...]:
    return SMALL.get(name, (1, 3, 64, 64))


def check(name: str, shape: tuple[int, ...], class_name: str, board: Board, folder: Path) -> None:
    """Build, verify, and look at what verifying says."""
    model = load_model(f"zoo:{name}", ModelOptions(shapes={"data": shape}))
    result = build(model, find_target(class_name), None, folder)
    bundle = read_bundle(result.bundle)
    assert bundle.library[:4] == b"\x7fELF"
    # The weights are inside, float32; of a batch norm's two parameters one is left, the bias.
    # Not quite all: what a kernel has for the zeros around an image of one pixel is left out, and of the
    # largest kernels of three axes, at one place of a small video, nearly two thirds are that.
    share = 0.35 if name == "resnet3d-18" and shape == small(name) else 0.75
    assert len(bundle.library) > share * 4 * count_parameters(model.onnx)
    assert bundle.manifest.board_class == class_name
    found = verify_bundle(bundle, OnBoard(board))
    found.check()
    document = found.to_json()
    assert document["machine"] == MACHINES[class_name]
    assert document["emulated"] is (class_name != "x86_64")
    assert document["tolerance"] == 1e-3
    for output in document["outputs"]:
        assert output["passed"]
        assert output["shape"][0] == 1
        assert output["max_rel_error"] < 1e-4  # an order below the tolerance, all rounding of float32
