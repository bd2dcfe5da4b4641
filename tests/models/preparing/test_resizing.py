"""Old ways to resize: the numbers of onnxruntime, or a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from tests.models.graphs import graph_of, tensor_info
from toolchain.errors import UsageError
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions

SHAPE = (1, 2, 6, 4)
SCALES = np.array([1, 1, 2, 3], np.float32)


def resizing(
    folder: Path,
    opset: int,
    mode: str = "nearest",
    scales: np.ndarray = SCALES,
    shape: tuple[int, ...] = SHAPE,
    stored: str = "initializer",
) -> Model:
    """Return a network with one node that resizes, its scales stored as an exporter would."""
    operator = "Resize" if opset == 10 else "Upsample"
    out = [int(extent * scale) for extent, scale in zip(shape, scales, strict=False)]
    nodes = [helper.make_node(operator, ["x", "s"], ["y"], "up", mode=mode)]
    if stored == "attribute":
        nodes = [helper.make_node(operator, ["x"], ["y"], "up", mode=mode, scales=scales.tolist())]
    elif stored == "node":
        nodes.insert(0, helper.make_node("Constant", [], ["s"], value=onnx.numpy_helper.from_array(scales)))
    weights = {"s": scales} if stored == "initializer" else {}
    graph = graph_of(nodes, [tensor_info("x", shape)], [tensor_info("y", out)], weights, opset)
    path = folder / "up.onnx"
    onnx.save(graph, path)
    return load_model(str(path), ModelOptions())


def computed(model: Model, x: np.ndarray) -> np.ndarray:
    """Return the output as TVM computes it on this host."""
    machine = relax.VirtualMachine(tvm.compile(model.module, "llvm"), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(x)).numpy())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(
    ("opset", "stored"), [(7, "attribute"), (8, "attribute"), (9, "initializer"), (9, "node"), (10, "node")]
)
def test_old_operators_give_the_numbers_of_onnxruntime(
    tmp_path: Path, opset: int, stored: str, mode: str
) -> None:
    model = resizing(tmp_path, opset, mode, stored=stored)
    sample = sample_inputs(model)
    expected = reference_outputs(model, sample)["y"]
    assert expected.shape == (1, 2, 12, 12)
    np.testing.assert_allclose(computed(model, sample["x"]), expected, atol=1e-6)


@pytest.mark.parametrize("opset", [8, 9, 10])
def test_the_nearest_pixel_is_that_of_onnxruntime(tmp_path: Path, opset: int) -> None:
    scales, stored = np.array([1, 1, 1.2, 1.2], np.float32), "attribute" if opset < 9 else "node"
    model = resizing(tmp_path, opset, scales=scales, shape=(1, 2, 20, 20), stored=stored)
    sample = sample_inputs(model)
    np.testing.assert_array_equal(computed(model, sample["x"]), reference_outputs(model, sample)["y"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opset", "scales", "shape"),
    [(9, [1, 1, 1.5, 2.5], SHAPE), (9, [1, 1, 2], (1, 2, 5)), (10, [1, 1, 0.5, 0.5], (1, 2, 6, 4))],
)
def test_fractions_lines_and_shrinking(
    tmp_path: Path, opset: int, scales: list[float], shape: tuple[int, ...]
) -> None:
    model = resizing(tmp_path, opset, scales=np.array(scales, np.float32), shape=shape)
    sample = sample_inputs(model)
    np.testing.assert_allclose(computed(model, sample["x"]), reference_outputs(model, sample)["y"], atol=1e-6)


@pytest.mark.parametrize(
    ("opset", "scales", "stored", "reason"),
    [
        (
            9,
            [1, 1, 1.3, 1],
            "initializer",
            r"its scales \[1.0, 1.0, 1.3, 1.0\] make no whole number of pixels",
        ),
        (9, [1, 2, 2, 2], "initializer", "change more than one to three spatial dimensions"),
        (10, [1, 1, 0.5, 2], "initializer", "enlarge and shrink at once"),
    ],
)
def test_what_cannot_be_imported_names_the_node_and_the_way_out(
    tmp_path: Path, opset: int, scales: list[float], stored: str, reason: str
) -> None:
    with pytest.raises(UsageError, match=rf"unsupported use of \w+ \(node 'up'\): .*{reason}") as refused:
        resizing(tmp_path, opset, scales=np.array(scales, np.float32), stored=stored)
    assert "operator set 11" in refused.value.hint
