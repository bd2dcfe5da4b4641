"""A bundle much larger than its network is said to be, with the option that makes it smaller."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.building.several import Size, weights_of
from toolchain.cli.commands.build import show
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (Size(4 * MIB, MIB, 3 * MIB), ""),
        (Size(MIB // 2, 1000), ""),  # a small network: code and sample
        (Size(5 * MIB, 0), ""),
        (
            Size(9 * MIB, 2 * MIB, 6 * MIB),
            "9.0 MiB, 4.5 times the network's weights; 3.0 MiB with --winograd off",
        ),
        (Size(9 * MIB, MIB, MIB), "9.0 MiB, 9.0 times the network's weights"),
        (
            Size(9 * MIB, MIB, MIB, 7 * MIB),
            "9.0 MiB, 9.0 times the network's weights; 7.0 MiB are the sample and its output",
        ),
    ],
)
def test_size_warning_text(size: Size, said: str) -> None:
    assert size.text == said


def test_weights_count_in_their_own_types() -> None:
    weights = [
        onnx.numpy_helper.from_array(np.zeros((3, 4), "f2"), "half"),
        helper.make_tensor("listed", onnx.TensorProto.FLOAT, [5], [0.0] * 5),
        helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"ab", b"c"]),
    ]
    model = helper.make_model(helper.make_graph([], "g", [], [], weights))
    assert weights_of(model) == 24 + 20 + 3


def network() -> onnx.ModelProto:
    """Return four 3x3 convolutions of 64 channels in float16."""
    random, value, nodes, weights = np.random.default_rng(0), "x", [], {}
    for i in range(4):
        weights[f"w{i}"] = (random.standard_normal((64, 64, 3, 3)) / 24).astype("f2")
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"y{i}"], pads=[1] * 4))
        value = f"y{i}"
    kind = onnx.TensorProto.FLOAT16
    shape = [1, 64, 24, 24]
    return graph_of(nodes, [tensor_info("x", shape, kind)], [tensor_info(value, shape, kind)], weights)


@pytest.mark.slow
def test_a_build_says_what_winograd_costs_and_keeps_the_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "half.onnx"
    onnx.save(network(), str(path))
    model, target = load_model(str(path), ModelOptions()), find_target("rk3399")

    def built(winograd: Literal["auto", "off"]) -> BuildResult:
        options = BuildOptions(code=CodeOptions(winograd=winograd))
        return build(model, target, None, tmp_path / winograd, options)

    result = built("auto")
    found, off = result.size, built("off").size
    show(result)
    assert f"size: {found.text}\n" in capsys.readouterr().out
    assert found.bundle == next((tmp_path / "auto").glob("*.bundle")).stat().st_size
    assert found.weights == 4 * 64 * 64 * 9 * 2
    assert found.sample == 2 * 64 * 24 * 24 * 2
    assert found.bundle > 4 * found.weights and "with --winograd off" in found.text
    assert off.transformed == 0 and not off.text
    assert found.bundle - found.transformed == pytest.approx(off.bundle, rel=0.05)
