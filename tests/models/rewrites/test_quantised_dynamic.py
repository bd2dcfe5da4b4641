"""What `quantize_dynamic` makes of layers: activations are rounded by scales that are found as they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded, refused

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(11)
MICROSOFT = "com.microsoft"


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def dynamic(model: onnx.ModelProto, folder: Path, *, channels: bool = False) -> onnx.ModelProto:
    """Return a network as `quantize_dynamic` writes it."""
    onnx.save(model, folder / "float.onnx")
    quantize_dynamic(
        folder / "float.onnx", folder / "dynamic.onnx", per_channel=channels, weight_type=QuantType.QInt8
    )
    return onnx.load(folder / "dynamic.onnx")


def lstm(
    steps: int = 7,
    batch: int = 1,
    direction: str = "forward",
    inputs: tuple[str, ...] = (),
    **own: Any,
) -> onnx.ModelProto:
    """Return an LSTM of 20 units on 12 numbers; `inputs`: those beyond the bias."""
    count, hidden = (2 if direction == "bidirectional" else 1), 20
    state = (count, batch, hidden)
    weights = {
        "w": weight(count, 4 * hidden, 12),
        "r": weight(count, 4 * hidden, hidden),
        "b": weight(count, 8 * hidden),
        "h0": weight(*state),
        "c0": weight(*state),
        "p": weight(count, 3 * hidden),
        "lengths": np.arange(steps, steps - batch, -1).astype(np.int32),
    }
    names = ["x", "w", "r", "b", *inputs]
    node = helper.make_node("LSTM", names, ["y", "h", "c"], hidden_size=hidden, direction=direction, **own)
    outputs = [
        tensor_info("y", (steps, count, batch, hidden)),
        tensor_info("h", state),
        tensor_info("c", state),
    ]
    kept = {name: array for name, array in weights.items() if name in names}
    return graph_of([node], [tensor_info("x", (steps, batch, 12))], outputs, kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "channels"),
    [
        (lstm(), False),
        (lstm(batch=3, direction="bidirectional"), True),
        (lstm(batch=2, direction="reverse", inputs=("lengths", "h0", "c0", "p")), False),
    ],
    ids=["one sequence", "both directions", "lengths, states and peepholes"],
)
def test_a_recurrent_layer_rounds_as_onnxruntime_does(
    network: onnx.ModelProto, channels: bool, tmp_path: Path
) -> None:
    graph = dynamic(network, tmp_path, channels=channels)
    assert [node.op_type for node in graph.graph.node] == ["DynamicQuantizeLSTM"]
    model = loaded(graph, tmp_path)
    assert model.rounding is not None
    assert model.rounding.uncertain == ("y",)
    # A state that is rounded the other way moves the outputs by 7e-4, one that is not rounded at all by 3e-3.
    assert_same(model, tolerance=2e-5)


def test_a_recurrent_layer_with_computed_weights_is_refused(tmp_path: Path) -> None:
    graph = dynamic(lstm(), tmp_path)
    scale = next(each for each in graph.graph.initializer if each.name == "w_scale")
    graph.graph.initializer.remove(scale)
    graph.graph.input.append(tensor_info("w_scale", tuple(scale.dims)))
    assert "weights, scales and zero points must be constants" in refused(graph, tmp_path).message


def perceptron() -> onnx.ModelProto:
    """Return a layer norm, products, an attention's softmax and a dense layer: a transformer's parts."""
    weights = {"q": weight(24, 24), "k": weight(24, 24), "v": weight(24, 24), "d": weight(24, 10)}
    weights |= {"g": np.ones(24, np.float32), "b": weight(10)}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g"], ["n"]),
        *(helper.make_node("MatMul", ["n", name], [f"{name}x"]) for name in "qkv"),
        helper.make_node("Transpose", ["kx"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["qx", "kt"], ["s"]),
        helper.make_node("Softmax", ["s"], ["a"]),
        helper.make_node("MatMul", ["a", "vx"], ["m"]),
        helper.make_node("MatMul", ["m", "d"], ["o"]),
        helper.make_node("Add", ["o", "b"], ["y"]),
    ]
    return graph_of(nodes, [tensor_info("x", (2, 6, 24))], [tensor_info("y", (2, 6, 10))], weights)


def convolutions() -> onnx.ModelProto:
    """Return two convolutions with biases, the second in groups."""
    weights = {"w": weight(8, 3, 3, 3), "v": weight(8, 4, 3, 3), "b": weight(8), "c": weight(8)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["u"], pads=[1] * 4),
        helper.make_node("Relu", ["u"], ["r"]),
        helper.make_node("Conv", ["r", "v", "c"], ["y"], group=2),
    ]
    return graph_of(nodes, [tensor_info("x", (1, 3, 9, 9))], [tensor_info("y", (1, 8, 7, 7))], weights)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "marker"), [(perceptron, "MatMulInteger"), (convolutions, "ConvInteger")]
)
def test_layers_round_as_onnxruntime_does(network: Any, marker: str, tmp_path: Path) -> None:
    graph = dynamic(network(), tmp_path)
    assert marker in {node.op_type for node in graph.graph.node}
    assert_same(loaded(graph, tmp_path), tolerance=2e-5)


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("operator", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
def test_products_that_end_in_floats(operator: str, bias: bool, channels: bool, tmp_path: Path) -> None:
    count = 7 if channels else 1
    weights = {
        "w": RANDOM.integers(-127, 128, (16, 7)).astype(np.int8),
        "s": RANDOM.uniform(0.01, 0.02, count).astype(np.float32),
        "z": RANDOM.integers(-5, 5, count).astype(np.int8),
        "b": weight(7),
        "as": np.float32(0.03),
        "az": np.uint8(120),
    }
    nodes = []
    names = ["x", "w", "s", "z"]
    if operator == "MatMulIntegerToFloat":
        nodes.append(helper.make_node("QuantizeLinear", ["x", "as", "az"], ["a"]))
        names = ["a", "w", "as", "s", "az", "z"]
    names += ["b"] if bias else []
    nodes.append(helper.make_node(operator, names, ["y"], domain=MICROSOFT))
    kept = {name: array for name, array in weights.items() if any(name in node.input for node in nodes)}
    graph = graph_of(nodes, [tensor_info("x", (5, 16))], [tensor_info("y", (5, 7))], kept)
    graph.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    assert_same(loaded(graph, tmp_path), tolerance=2e-6)


def test_rounding_of_the_other_domain_is_the_standards(tmp_path: Path) -> None:
    """As `quantize_static` writes it with UseQDQContribOps."""
    weights = {"s": np.float32(0.03), "z": np.uint8(120)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], domain=MICROSOFT),
    ]
    graph = graph_of(nodes, [tensor_info("x", (5, 16))], [tensor_info("y", (5, 16))], weights)
    graph.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    assert_same(loaded(graph, tmp_path), tolerance=0)


@pytest.mark.parametrize(("factor", "more"), [(0, 0), (1, 0), (1, 9), (1, -9)])
def test_any_range_of_numbers_is_rounded_dynamically(factor: float, more: float, tmp_path: Path) -> None:
    """Zeros among them, as behind a Relu of negative numbers: their scale is 1."""
    outputs = [
        tensor_info("q", (3, 20), TensorProto.UINT8),
        tensor_info("s", ()),
        tensor_info("z", (), TensorProto.UINT8),
    ]
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    model = loaded(graph_of([node], [tensor_info("x", (3, 20))], outputs, {}), tmp_path)
    x = (factor * RANDOM.standard_normal((3, 20)) + more).astype(np.float32)
    assert_same(model, inputs={"x": x})
