"""Quantised graphs: what onnxruntime computes of them, and what cannot be quantised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from onnx import numpy_helper

from tests.models.original import outputs_of
from tests.models.quantising.affine.networks import Net, mobile
from tests.models.quantising.networks import Block, blocks, network
from toolchain.errors import UsageError
from toolchain.models.onnx_graph import attributes_of
from toolchain.models.options import AFFINE
from toolchain.models.quantising.affine_quantiser import quantise
from toolchain.models.quantising.calibration import Tapped
from toolchain.models.quantising.result import Quantised


def quantised(
    model: onnx.ModelProto, quantizer: str = "mse", images: Mapping[str, Path] | None = None
) -> Quantised:
    return quantise(onnx.shape_inference.infer_shapes(model), quantizer, images or {}, "net.onnx")


def convolved(x: np.ndarray, weight: np.ndarray, own: Mapping[str, list[int]]) -> np.ndarray:
    """Return the sums of a convolution without groups, in 64-bit integers."""
    top, left, bottom, right = own.get("pads", [0] * 4)
    down, across = own.get("strides", [1, 1])
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))[
        :, :, ::down, ::across
    ]
    return np.einsum("ncyxij,ocij->noyx", windows, weight)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(blocks())
def test_a_convolution_is_one_of_integers(drawn: tuple[Block, ...]) -> None:
    """onnxruntime's kernel rounds 32-bit sums times one factor; the graph means nothing else."""
    graph = quantised(network(drawn), "minmax").graph
    makers = {name: node for node in graph.graph.node for name in node.output}
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    convs = [node for node in graph.graph.node if node.op_type == "Conv"]
    ends = {node.output[0]: next(e for e in graph.graph.node if node.output[0] in e.input) for node in convs}
    names = {makers[node.input[0]].input[0] for node in convs} | {end.output[0] for end in ends.values()}
    image = np.random.default_rng(3).standard_normal((1, 3, 9, 9)).astype(np.float32)
    values = Tapped(graph, names, "net.onnx").values({"data": image})
    for node in convs:
        x, w, b = (makers[name] for name in node.input)
        xs, xz = (stored[name] for name in x.input[1:])
        weight, ws, bias = stored[w.input[0]], stored[w.input[1]], stored[b.input[0]]
        assert weight.dtype == np.int8 and (stored[w.input[2]] == 0).all() and weight.min() >= -127
        np.testing.assert_array_equal(stored[b.input[1]], xs * ws)
        ys, yz = (stored[name] for name in ends[node.output[0]].input[1:])
        sums = convolved(
            values[x.input[0]].astype(np.int64) - xz, weight.astype(np.int64), attributes_of(node)
        )
        sums = (sums + bias.reshape(1, -1, 1, 1)).astype(np.float32)
        wanted = np.clip(np.rint(sums * (xs * ws / ys).reshape(1, -1, 1, 1)) + int(yz), 0, 255)
        np.testing.assert_array_equal(values[ends[node.output[0]].output[0]], wanted)


def test_onnxruntime_computes_everything_with_integers(tmp_path: Path) -> None:
    """Its optimiser finds each group; what is left in floats are the activations, which have no kernel."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(quantised(mobile()).graph.SerializeToString(), options)
    kinds = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert kinds.count("QLinearConv") == 9 and kinds.count("QGemm") == 1
    assert {"QLinearAdd", "QLinearMul", "QLinearGlobalAveragePool"} <= set(kinds)
    assert not {"Conv", "Gemm", "MatMul", "Add", "Relu", "Clip", "GlobalAveragePool"} & set(kinds)


@pytest.mark.slow
@pytest.mark.parametrize("quantizer", AFFINE)
def test_little_is_lost(quantizer: str) -> None:
    made = quantised(mobile(), quantizer)
    assert made.counts == {
        "convolution": 9,
        "dense layer": 1,
        "addition": 1,
        "multiplication": 1,
        "average pool": 2,
        "concatenation": 1,
        "activation": 5,
    }
    assert not made.left and made.cost.quantizer == quantizer and made.cost.random
    assert made.cost.sqnr_db > 25
    assert [layer.name for layer in made.cost.layers][:3] == ["stem", "expand", "deep"]
    assert made.to_json()["integers"] == made.counts


@pytest.mark.parametrize("dtype", ["BOOL", "UINT8", "INT32"])
def test_an_output_of_no_floats_has_no_classes(dtype: str) -> None:
    kind = getattr(onnx.TensorProto, dtype)
    net = Net((2, 6))
    net.node("MatMul", f"data {net.weight('w', 6, 4)}", "y")
    net.store("zero", np.float32(0))
    net.node("Cast", net.node("Greater", "y zero", "seen"), "z", to=kind)
    model = net.model("z")
    model.graph.output[0].type.tensor_type.elem_type = kind
    cost = quantised(model).cost
    assert (cost.top1, cost.top5) == (None, None) and cost.sqnr_db > 0


def test_outputs_keep_their_whole_range(tmp_path: Path) -> None:
    """The largest logit decides: clipped ones would all be equal."""
    images = np.random.default_rng(0).standard_normal((400, 3, 9, 9)).astype(np.float32)
    images[0] *= 10
    np.save(tmp_path / "x.npy", images)
    model = network((Block(4),), batch=400)
    logits = outputs_of(model, {"data": images})[0]
    graph = quantised(model, "mse", {"data": tmp_path / "x.npy"}).graph
    got = Tapped(graph, ["logits"], "net").values({"data": images})["logits"]
    (scale,) = [node.input[1] for node in graph.graph.node if node.output[0] == "logits"]
    (step,) = [numpy_helper.to_array(each) for each in graph.graph.initializer if each.name == scale]
    span = max(logits.max(), 0) - min(logits.min(), 0)
    assert step * 255 == pytest.approx(span, rel=1e-3), "others are clipped by mse, as the input is here"
    assert np.abs(images).max() > 1.2 * np.abs(input_range(graph)).max() and np.isfinite(got).all()


def input_range(graph: onnx.ModelProto) -> np.ndarray:
    """Return the smallest and the largest number that the integers of the input stand for."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    (node,) = [node for node in graph.graph.node if node.input[0] == "data"]
    step, zero = (stored[name].astype(np.float64) for name in node.input[1:])
    return np.array([0 - zero, 255 - zero]) * step


def test_a_batch_norm_is_folded_before_anything_is_rounded() -> None:
    net = Net()
    net.norm(net.conv("data", "c", (3, 4), 3), "y", 4)
    operators = [node.op_type for node in quantised(net.model("y")).graph.graph.node]
    assert sorted(operators) == ["Conv", *["DequantizeLinear"] * 4, *["QuantizeLinear"] * 2]


def test_an_old_operator_set_becomes_one_with_scales_by_channel() -> None:
    net = Net()
    net.node("Clip", net.conv("data", "c", (3, 4), 3), "d", min=0.0, max=6.0)
    net.conv("d", "y", (4, 2))
    model = net.model("y", opset=10)
    made = quantised(model)
    assert made.graph.opset_import[0].version == 13 and made.counts == {"convolution": 2}
    assert "Clip" not in [node.op_type for node in made.graph.graph.node]


def test_a_limit_that_rounding_does_not_imply_is_kept() -> None:
    """Its integers would reach further than the limit: no scale is that small."""
    net = Net()
    net.store("zero", np.float32(0))
    net.store("least", np.float32(1e-20))
    net.node("Clip", f"{net.conv('data', 'c', (3, 4), 3)} zero least", "d")
    net.conv("d", "y", (4, 2))
    assert "Clip" in [node.op_type for node in quantised(net.model("y")).graph.graph.node]


def broken(array: np.ndarray) -> onnx.ModelProto:
    net = Net()
    net.conv("data", "y", (3, 2))
    net.stored["y.w"] = array
    return net.model("y")


def already() -> onnx.ModelProto:
    net = Net()
    net.store("s", np.float32(0.1))
    net.store("z", np.uint8(128))
    net.node("DequantizeLinear", net.node("QuantizeLinear", "data s z", "q") + " s z", "r")
    net.conv("r", "y", (3, 2))
    return net.model("y")


def without_products() -> onnx.ModelProto:
    net = Net()
    net.node("Softmax", "data", "y")
    return net.model("y")


@pytest.mark.parametrize(
    ("model", "said", "hint"),
    [
        (
            broken(np.full((2, 3, 1, 1), np.nan, np.float32)),
            r"its tensor 'y\.w' holds NaN or infinity in 6 of 6 places, for which there is no scale",
            "export the network again",
        ),
        (already(), r"it is quantised already, by QuantizeLinear 'q'", "without --dtype int8"),
        (
            without_products(),
            r"nothing of it can be quantised \(y: Softmax has no integer form\)",
            "--dtype float32",
        ),
    ],
    ids=["nan", "quantised", "nothing"],
)
def test_refuses_unquantisable_networks(model: onnx.ModelProto, said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"net.onnx: --dtype int8: {said}") as caught:
        quantised(model)
    assert hint in caught.value.hint


def logarithm() -> onnx.ModelProto:
    net = Net()
    net.conv(net.node("Log", "data", "l"), "y", (3, 2))
    return net.model("y")


def test_random_inputs_are_such_that_all_values_are_numbers() -> None:
    """Normal floats have no logarithm; those between 1 and 2 do."""
    assert np.isfinite(quantised(logarithm()).cost.sqnr_db)


def test_images_that_give_no_numbers_are_refused(tmp_path: Path) -> None:
    images = np.ones((3, 3, 12, 12), np.float32)
    images[1] = -1
    np.save(tmp_path / "x.npy", images)
    with pytest.raises(UsageError, match="tensor 'l' is NaN or infinite for sample 1") as caught:
        quantised(logarithm(), images={"data": tmp_path / "x.npy"})
    assert "--calibrate NAME=FILE.npy" in caught.value.hint


def test_a_network_of_zeros_has_scales() -> None:
    net = Net()
    net.conv(net.conv("data", "x", (3, 4), 3), "y", (4, 2))
    net.stored = {name: np.zeros_like(array) for name, array in net.stored.items()}
    made = quantised(net.model("y"))
    scales = [numpy_helper.to_array(each) for each in made.graph.graph.initializer if "scale" in each.name]
    assert scales and all((each > 0).all() and np.isfinite(each).all() for each in scales)
    outputs = Tapped(made.graph, ["y"], "net").values({"data": np.ones((1, 3, 12, 12), np.float32)})
    assert not outputs["y"].any()
