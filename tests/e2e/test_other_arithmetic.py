"""Files in float16, and quantised ones in the forms that exporters write: built and verified here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import read_bundle
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

RANDOM = np.random.default_rng(3)


def network() -> onnx.ModelProto:
    """Return two convolutions, a residual, a pool and a dense layer."""
    weights = {
        "w0": RANDOM.standard_normal((16, 3, 3, 3)).astype(np.float32) * np.float32(0.2),
        "b0": RANDOM.standard_normal(16).astype(np.float32),
        "w1": RANDOM.standard_normal((16, 16, 3, 3)).astype(np.float32) * np.float32(0.1),
        "w2": RANDOM.standard_normal((16, 10)).astype(np.float32) * np.float32(0.3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4, kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4, kernel_shape=[3, 3]),
        helper.make_node("Add", ["c1", "r0"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"]),
    ]
    return graph_of(nodes, [tensor_info("x", (1, 3, 16, 16))], [tensor_info("y", (1, 10))], weights)


def in_half() -> onnx.ModelProto:
    """Return the network as an exporter writes it in float16."""
    model = network()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name)
        )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def quantised(form: str) -> Callable[[Path], onnx.ModelProto]:
    """Return what quantises the network by onnxruntime's own tool."""

    def made(folder: Path) -> onnx.ModelProto:
        from onnxruntime.quantization import (
            CalibrationDataReader,
            QuantFormat,
            quantize_dynamic,
            quantize_static,
        )

        class Samples(CalibrationDataReader):
            def __init__(self) -> None:
                self.left = [RANDOM.standard_normal((1, 3, 16, 16)).astype(np.float32) for _ in range(4)]

            def get_next(self) -> dict[str, np.ndarray] | None:
                return {"x": self.left.pop()} if self.left else None

        source, out = folder / "float.onnx", folder / "quantised.onnx"
        onnx.save(network(), source)
        if form == "dynamic":
            quantize_dynamic(source, out, op_types_to_quantize=["MatMul"])
        else:
            quantize_static(source, out, Samples(), quant_format=QuantFormat[form], per_channel=form == "QDQ")
        return onnx.load(out)

    return made


FORMS: dict[str, tuple[Callable[[Path], onnx.ModelProto], str]] = {
    "half": (lambda _: in_half(), "Conv"),
    "QDQ": (quantised("QDQ"), "QuantizeLinear"),
    "QOperator": (quantised("QOperator"), "QLinearConv"),
    "dynamic": (quantised("dynamic"), "MatMulInteger"),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_files_of_other_arithmetic_verify(form: str, tmp_path: Path) -> None:
    make, marker = FORMS[form]
    model = make(tmp_path)
    assert marker in {node.op_type for node in model.graph.node}
    onnx.save(model, tmp_path / "network.onnx")
    loaded = load_model(str(tmp_path / "network.onnx"), ModelOptions())
    bundle = read_bundle(build(loaded, find_target("x86_64"), None, tmp_path / "out").bundle)
    found = verify_bundle(bundle, OnBoard(find_board("local"))).to_json()
    assert found["passed"], json.dumps(found)
    assert bundle.manifest.tolerance == (2e-2 if form == "half" else 1e-3)
    assert {spec.dtype for spec in loaded.inputs} == {"float16" if form == "half" else "float32"}


def test_half_is_computed_in_float32(tmp_path: Path) -> None:
    onnx.save(in_half(), tmp_path / "network.onnx")
    module = str(load_model(str(tmp_path / "network.onnx"), ModelOptions()).module)
    products = [line for line in module.splitlines() if "conv2d" in line or "matmul" in line]
    assert products and not any("float16" in line for line in products)
