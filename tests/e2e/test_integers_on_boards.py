"""A network in 8-bit integers on emulated boards: products in pairs on two, dot products on the third."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain.boards.board import Board
from toolchain.boards.emulation import emulated
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow


@pytest.fixture(params=["rk3399", "raspberrypi5", "pynq"])
def board(request: pytest.FixtureRequest) -> Iterator[Board]:
    """Yield an emulated board of a class."""
    name = f"integers-{request.param}"
    yield emulated.start(request.param, kind="process", name=name)
    emulated.stop(name)


def test_a_network_in_integers_verifies(board: Board, tmp_path: Path) -> None:
    options = ModelOptions(shapes={"data": (1, 3, 64, 64)}, quantizer="minmax")
    model = load_model("zoo:mobilenet", options)
    how = BuildOptions(code=CodeOptions(dtype="int8"))
    built = build(model, find_target(board.profile.name), None, tmp_path, how)
    rules = {each.rule for each in built.decisions if "conv" in each.task.name}
    assert rules == {"direct", "depthwise"}
    bundle = read_bundle(built.bundle)
    assert ("asimddp" in bundle.manifest.requires) == (board.profile.name == "raspberrypi5")
    assert built.size.bundle < 8 << 20, "weights are bytes"
    verify_bundle(bundle, OnBoard(board)).check()
