"""Every way to pad, by few and by many, on boards of the Arm classes: many networks in one library.

Where a pad ends within a vector, code once wrote beyond its buffer, on 32-bit and on 64-bit Arm alone, and
at some widths alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from tests.backends.packed.sketch import Sketch
from tests.models.graphs import graph_of, tensor_info
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

MODES = ("reflect", "edge", "constant")
FEW = ((8, 8), (37, 64), (160, 112)), (1, 4, 5)
MANY = (
    tuple((size, size) for size in (5, 16, 64, 80, 96, 112, 128, 160, 200, 224, 256)),
    (1, 2, 3, 4, 7, 8, 16),
)


def padded(sizes: Sequence[tuple[int, int]], pads: Sequence[int]) -> tuple[onnx.ModelProto, list[str]]:
    """Return images, each padded in every way, and what the outputs are."""
    net = Sketch("v", 0)
    outputs, names = [], []
    for high, wide in sizes:
        image = net.input((1, 1, high, wide))
        for mode in MODES:
            for pad in pads:
                if pad < min(high, wide):
                    shape = (1, 1, high + 2 * pad, wide + 2 * pad)
                    out = net.op("Pad", image, net.constant([0, 0, pad, pad] * 2, "i8"), mode=mode)
                    outputs.append(tensor_info(out, shape))
                    names.append(f"{mode} by {pad} of {high}x{wide}")
    inputs = [tensor_info(name, shape) for name, shape in net.inputs.items()]
    return graph_of(net.nodes, inputs, outputs, net.weights), names


def wrong(sizes: Sequence[tuple[int, int]], pads: Sequence[int], board: Board, folder: Path) -> list[str]:
    """Return which pads are not what onnxruntime makes of the image."""
    network, names = padded(sizes, pads)
    onnx.save(network, folder / "pads.onnx")
    model = load_model(str(folder / "pads.onnx"), ModelOptions())
    built = build(model, find_target(board.profile.name), None, folder)
    outputs = verify_bundle(read_bundle(built.bundle), OnBoard(board)).to_json()["outputs"]
    assert len(outputs) == len(names) > 0
    return [name for name, each in zip(names, outputs, strict=True) if each["max_rel_error"] != 0]


@pytest.mark.slow
@pytest.mark.parametrize("class_name", ["rk3399", "pynq"])
def test_pads_are_exact(class_name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    assert not wrong(*FEW, request.getfixturevalue(class_name), tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("class_name", ["rk3399", "pynq"])
def test_pads_of_every_size_are_exact(
    class_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    assert not wrong(*MANY, request.getfixturevalue(class_name), tmp_path)
