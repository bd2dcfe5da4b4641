"""A file that PyTorch's PT2E quantised: biases in floats, int8 activations, zero points with many readers."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.rewrites.quantised.groups import fold_in_groups
from toolchain.models.rewrites.quantised.integer_operators import CONVOLUTION_WITH_FLOATS, GEMM_WITH_FLOATS

FILE = Path(__file__).parents[1] / "data/pytorch/pt2e.onnx"


def test_every_layer_is_a_group_of_integers_although_its_bias_is_in_floats() -> None:
    found = [node.op_type for node in fold_in_groups(onnx.load(FILE), "pt2e", {}).model.graph.node]
    assert found.count(CONVOLUTION_WITH_FLOATS) == 4 and found.count(GEMM_WITH_FLOATS) == 1
    assert not {"Conv", "Gemm", "Add"} & set(found)


@pytest.mark.slow
def test_it_is_computed_in_integers_and_verifies(tmp_path: Path) -> None:
    model = load_model(str(FILE), ModelOptions())
    assert model.rounding is not None and model.rounding.uncertain, "onnxruntime sums up floats"
    built = build(model, find_target("x86_64"), None, tmp_path)
    bundle = read_bundle(built.bundle)
    (allowed,) = bundle.manifest.tolerances
    assert allowed.step is not None and allowed.number <= 4
    assert {each.rule for each in built.decisions if "conv" in each.task.name} <= {"direct", "depthwise"}
    result = verify_bundle(bundle, OnBoard(find_board("local")))
    result.check()
    (output,) = result.to_json()["outputs"]
    assert output["compared_as"] == "steps" and output["error_steps"] <= allowed.number
