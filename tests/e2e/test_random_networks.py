"""Networks of random shapes, built for emulated boards and verified there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from tests.backends.packed.drawn import Drawn, merged
from tests.backends.packed.strategies import ALL
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import read_bundle
from toolchain.errors import UsageError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions

NETWORKS = 12  # side by side in one file
EXAMPLES = os.environ.get("PROPERTY_EXAMPLES")  # how many files: more, and others each time


@pytest.mark.slow
@pytest.mark.parametrize("class_name", ["rk3399", "pynq"])
@settings(
    max_examples=int(EXAMPLES or 2),  # the first that hypothesis draws is as small as can be
    derandomize=EXAMPLES is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(networks=st.lists(ALL, min_size=NETWORKS, max_size=NETWORKS, unique=True))
def test_random_networks_are_right_on_a_board(
    class_name: str, request: pytest.FixtureRequest, networks: list[Drawn]
) -> None:
    board: Board = request.getfixturevalue(class_name)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(merged(networks), folder / "network.onnx")
        model = load_model(str(folder / "network.onnx"), ModelOptions())
        bundle = read_bundle(build(model, find_target(class_name), None, folder).bundle)
        found = verify_bundle(bundle, OnBoard(board))
    wrong = [
        f"{network!r}: {output['max_rel_error']}"
        for network, output in zip(networks, found.to_json()["outputs"], strict=True)
        if not output["passed"] or not output["max_rel_error"] < 1e-4
    ]
    assert not wrong


@pytest.mark.slow
@settings(
    max_examples=int(EXAMPLES or 2),
    derandomize=EXAMPLES is None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(networks=st.lists(ALL, min_size=NETWORKS, max_size=NETWORKS, unique=True))
def test_random_networks_in_integers_are_right_here(networks: list[Drawn]) -> None:
    """What follows a float layer may be a step off; else integers are the judge's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(merged(networks), folder / "network.onnx")
        try:
            model = load_model(str(folder / "network.onnx"), ModelOptions(quantizer="mse"))
        except UsageError as error:
            assert "nothing of it can be quantised" in error.message
            reject()
        options = BuildOptions(code=CodeOptions(dtype="int8"))
        bundle = read_bundle(build(model, find_target("x86_64"), None, folder, options).bundle)
        found = verify_bundle(bundle, OnBoard(find_board("local")))
    assert found.comparison.passed, found.comparison.worst
