"""Rows that work items share, on the emulated driver, which finds wrong accesses and data races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import te, topi

from tests.backends.packed.computed import loaded
from tests.opencl.networks import side_by_side
from tests.testbeds.cuda.networks import emulated, error_of
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.stages.stagewise import stagewise
from toolchain.backends.table import backend_for
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions

Shape = tuple[int, ...]


def alone(kind: str, shape: Shape, **attributes: object) -> onnx.ModelProto:
    """Return a network of one operator."""
    constants = []
    if kind == "LayerNormalization":
        random = np.random.default_rng(0)
        values = {name: random.standard_normal(shape[-1]).astype("f4") for name in ("scale", "bias")}
        constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
    nodes = [helper.make_node(kind, ["x", *(each.name for each in constants)], ["y"], **attributes)]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "alone", [source], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def pooled(kind: str) -> onnx.ModelProto:
    """Return a network that pools the result of a convolution, which lies in blocks of channels."""
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.standard_normal((12, 4, 3, 3)).astype("f4") / 6, "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node(kind, ["c"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 4, 9, 7))
    graph = helper.make_graph(
        nodes, "pooled", [source], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.slow
def test_rows_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    """Rows of one item, of a part of a warp, of several warps; too long for shared memory; rests."""
    assert state
    models = [
        alone("Softmax", (1, 1000), axis=-1),
        alone("Softmax", (12, 7, 37), axis=-1),
        alone("Softmax", (2, 20000), axis=-1),
        alone("LogSoftmax", (9, 3), axis=-1),
        alone("LayerNormalization", (5, 3, 768), axis=-1),
        alone("LayerNormalization", (33, 50), axis=-1),
        alone("LpNormalization", (2, 3, 40), axis=2),
    ]
    with emulated(monkeypatch) as board:
        assert error_of(loaded(side_by_side(models)), board, tmp_path) < 3e-6


@pytest.mark.slow
def test_reductions_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    """Results along and across the reduced axes, in blocks of channels, with a rest of items and of rows."""
    assert state
    models = [
        alone("ReduceMean", (1, 20, 7, 7), axes=[2, 3]),
        alone("ReduceMean", (2, 12, 16, 16), axes=[2, 3]),
        alone("ReduceMean", (1, 128, 64), axes=[1]),
        alone("ReduceMean", (1, 30, 9), axes=[1]),
        alone("ReduceMax", (5, 768), axes=[1]),
        alone("ReduceMin", (33, 50), axes=[1], keepdims=0),
        alone("ReduceProd", (2, 3, 40), axes=[2]),
        alone("ReduceL2", (1, 30, 9), axes=[0, 1, 2], keepdims=0),
        pooled("GlobalAveragePool"),
        pooled("GlobalMaxPool"),
    ]
    with emulated(monkeypatch) as board:
        assert error_of(loaded(side_by_side(models)), board, tmp_path) < 3e-6


@pytest.mark.parametrize(("device", "words"), [("cuda", 5), ("opencl", 0)])
def test_items_share_a_row_on_gpus_with_shared_memory_alone(device: str, words: int) -> None:
    x = te.placeholder((1, 1000), name="x")
    found = read(te.create_prim_func([x, topi.nn.softmax(x)]))
    board = "cuda" if device == "cuda" else "rk3399"
    backend = backend_for(load_profile(board), CodeOptions(device=device))
    code = str(stagewise(found, [None, None], machine_of(backend.target())))
    assert code.count("tvm_storage_sync") == words
    assert ("alloc_shared((1000,))" in code) is (words > 0)
    assert ("alloc_local((1000,))" in code) is (words == 0)
