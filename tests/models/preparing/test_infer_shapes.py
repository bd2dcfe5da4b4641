"""Shapes of inner tensors: too large, too long, or nothing left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import classifier, graph_of, tensor_info
from tests.models.preparing.conftest import Save
from toolchain.errors import UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.preparing.infer_shapes import LARGE, MOST_DIMENSIONS, infer_shapes
from toolchain.models.preparing.tensor_types import dimensions


def test_a_tensor_of_more_elements_than_32_bits_count_is_refused(save: Save) -> None:
    path = save(classifier(shape=("batch", 3, "h", "w")))
    for shape, says in (
        ((1, 3, 1 << 15, 1 << 15), "data=1,3,32768,32768 has 3221225472 elements"),
        (
            (1, 3, 1 << 14, 1 << 15),
            "=1,4,16384,32768 has 2147483648 elements",
        ),  # its convolution
    ):
        with pytest.raises(UsageError, match=says) as caught:
            load_model(path, ModelOptions(shapes={"data": shape}))
        assert caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "length"), [("Range", 2**40), ("Tile", 2**27)])
def test_a_constant_that_would_fill_any_memory_is_not_computed(
    tmp_path: Path, operator: str, length: int
) -> None:
    """Read in a process that may not have 8 GiB: onnx needs 100 bytes for each value that it follows."""
    stored = {"from": np.int64(0), "to": np.int64(length), "by": np.int64(1)}
    if operator == "Tile":
        stored = {"one": np.ones(1, np.int64), "times": np.array([length])}
    nodes = [
        helper.make_node(operator, list(stored), ["long"]),
        helper.make_node("Cast", ["long"], ["values"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "values"], ["y"]),
    ]
    weights = {name: np.asarray(value) for name, value in stored.items()}
    model = graph_of(nodes, [tensor_info("x", [1])], [tensor_info("y", [length])], weights)
    onnx.save(model, tmp_path / "net.onnx")
    program = """
import resource, sys
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
try:
    load_model(sys.argv[1], ModelOptions())
    print("loaded")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "net.onnx"], capture_output=True, text=True, timeout=100
    )
    said = "loaded\n" if length < 2**31 else "UsageError"
    assert done.stdout.startswith(said) and "alloc" not in done.stdout, done.stdout + done.stderr


def convolution(extent: int, weight: np.ndarray) -> onnx.ModelProto:
    return graph_of(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [tensor_info("x", (1, weight.shape[1], extent, extent))],
        [tensor_info("y", None)],
        {"w": weight},
    )


def test_a_weight_that_inference_does_not_see_is_whole_again_afterwards() -> None:
    weight = np.random.default_rng(0).normal(size=(64, 64, 3, 3)).astype(np.float32)
    assert weight.nbytes > LARGE
    given = convolution(5, weight)
    known = infer_shapes(given, "net.onnx")
    assert dimensions(known.graph.output[0]) == (1, 64, 3, 3)
    assert known.graph.initializer[0] == given.graph.initializer[0]
    assert dimensions(given.graph.output[0]) is None, "the model that was handed over stays as it is"


def test_an_image_smaller_than_the_kernel_is_refused_and_left_open_when_asked() -> None:
    model = convolution(2, np.ones((1, 1, 3, 3), np.float32))
    with pytest.raises(UsageError, match=r"^net\.onnx: the shapes don't fit together") as caught:
        infer_shapes(model, "net.onnx")
    assert caught.value.hint
    assert infer_shapes(model, "net.onnx", strict=False).graph.node == model.graph.node


def test_more_dimensions_than_can_be_compiled_are_refused_by_the_tensor_s_name() -> None:
    model = convolution(5, np.ones((1, 1, 3, 3), np.float32))
    model.graph.value_info.append(tensor_info("deep", (1,) * (MOST_DIMENSIONS + 1)))
    with pytest.raises(UsageError, match=r"net\.onnx: tensor 'deep' has 33 dimensions; 32 can"):
        infer_shapes(model, "net.onnx")


@pytest.mark.parametrize("own", [{}, {"pads": [0, 1, 0, 1]}, {"dilations": [1, 2], "auto_pad": "VALID"}])
def test_a_kernel_larger_than_its_image_is_refused_with_wide_strides_too(
    own: dict[str, object], save: Save
) -> None:
    """onnx counts one place there, TVM none."""
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 2], **own)
    graph = graph_of([pool], [tensor_info("x", (1, 4, 2, 4))], [tensor_info("y", (1, 4, "h", "w"))], {})
    with pytest.raises(UsageError, match="nothing is left of 'y'"):
        load_model(save(graph), ModelOptions())
