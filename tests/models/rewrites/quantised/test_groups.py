"""Operators on quantised values: every output of them is what onnxruntime gives, to the last step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.backends.packed.computed import computed
from tests.models.graphs import graph_of, tensor_info
from tests.models.original import outputs_of
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.backends.packed.machines import AVX2
from toolchain.models.folding.fold import fold
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.rewrites import rewrite
from toolchain.models.rewrites.quantised.groups import fold_in_groups

pytestmark = pytest.mark.slow

MICROSOFT = "com.microsoft"
KINDS = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
ZEROS = {"uint8": 117, "int8": -11}


class Network:
    """A network under construction; its names are those of values that stand for numbers."""

    def __init__(self, kind: str, shapes: Sequence[tuple[int, ...]], seed: int = 0) -> None:
        self.kind, self.random = kind, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs = [tensor_info(f"x{place}", shape) for place, shape in enumerate(shapes)]

    def parameters(self, name: str, scale: float, zero: int | None = None) -> list[str]:
        """Store a scale and a zero point of an activation."""
        number = ZEROS[self.kind] if zero is None else zero
        self.weights |= {f"{name}.s": np.float32(scale), f"{name}.z": np.array(number, self.kind)}
        return [f"{name}.s", f"{name}.z"]

    def node(self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **own: Any) -> str:
        """Add a node with one output."""
        self.nodes.append(helper.make_node(operator, list(inputs), [output], domain=domain, **own))
        return output

    def steps(self, name: str, scale: float, zero: int | None = None) -> list[str]:
        """Round an input; return the names of its integers, scale and zero point."""
        found = self.parameters(name, scale, zero)
        return [self.node("QuantizeLinear", [name, *found], f"{name}.q"), *found]

    def weight(self, name: str, shape: tuple[int, ...], axis: int | None) -> list[str]:
        """Store a weight with one scale, or one for each along an axis."""
        count = () if axis is None else (shape[axis],)
        self.weights |= {
            f"{name}.q": self.random.integers(-127, 128, shape).astype(np.int8),
            f"{name}.s": self.random.uniform(0.002, 0.02, count).astype(np.float32),
            f"{name}.z": np.zeros(count, np.int8),
        }
        return [f"{name}.q", f"{name}.s", f"{name}.z"]

    def model(self, outputs: Sequence[str], rank: int = 4, opset: int = 17) -> onnx.ModelProto:
        """Return the network with outputs of integers."""
        shape = [f"d{place}" for place in range(rank)]
        values = [tensor_info(name, shape, KINDS[self.kind]) for name in outputs]
        graph = graph_of(self.nodes, self.inputs, values, self.weights, opset)
        graph.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
        return graph


def products(kind: str, form: str, channels: bool) -> onnx.ModelProto:
    """Return convolutions with a residual and pools, and a dense layer, as the form writes them."""
    net = Network(kind, [(1, 8, 13, 13)])
    x = net.steps("x0", 0.02)
    axis = 0 if channels else None
    first, depthwise = net.weight("w", (16, 8, 3, 3), axis), net.weight("d", (16, 1, 3, 3), axis)
    second, dense = net.weight("v", (16, 16, 1, 1), axis), net.weight("f", (16, 10), 1 if channels else None)
    net.weights["b"] = net.random.integers(-3000, 3000, 16).astype(np.int32)
    net.weights["g"] = net.random.integers(-3000, 3000, 10).astype(np.int32)
    y = {
        name: net.parameters(name, scale)
        for name, scale in {"c": 0.31, "e": 0.93, "h": 2.1, "a": 2.3, "m": 1.9, "p": 0.61, "o": 1.7}.items()
    }

    if form == "QOperator":
        pads = {"pads": [1] * 4}
        c = [net.node("QLinearConv", [*x, *first, *y["c"], "b"], "c.q", **pads), *y["c"]]
        e = [net.node("QLinearConv", [*c, *depthwise, *y["e"]], "e.q", group=16, **pads), *y["e"]]
        h = [net.node("QLinearConv", [*e, *second, *y["h"]], "h.q"), *y["h"]]
        a = [net.node("QLinearAdd", [*h, *c, *y["a"]], "a.q", MICROSOFT), *y["a"]]
        m = [
            net.node(
                "QLinearAveragePool", [*a, *y["m"]], "m.q", MICROSOFT, kernel_shape=[3, 3], strides=[2, 2]
            ),
            *y["m"],
        ]
        p = [net.node("QLinearGlobalAveragePool", [*m, *y["p"]], "p.q", MICROSOFT), *y["p"]]
        net.weights["shape"] = np.array([1, 16])
        flat = net.node("Reshape", [p[0], "shape"], "flat")
        net.node("QGemm", [flat, *p[1:], *dense, "g", *y["o"]], "o.q", MICROSOFT)
        return with_dense(net.model(["c.q", "e.q", "h.q", "a.q", "m.q", "p.q"]), net)

    def real(name: str, parts: Sequence[str], **own: Any) -> str:
        return net.node("DequantizeLinear", parts, f"{name}.r", **own)

    def rounded(name: str, value: str) -> list[str]:
        return [net.node("QuantizeLinear", [value, *y[name]], f"{name}.q"), *y[name]]

    def bias(name: str, weight: str, scale: str) -> str:
        net.weights[f"{name}.s"] = net.weights[scale] * net.weights[f"{weight}.s"]
        net.weights[f"{name}.z"] = np.zeros_like(net.weights[f"{name}.s"], np.int32)
        return real(name, [name, f"{name}.s", f"{name}.z"], **({"axis": 0} if channels else {}))

    by_row = {"axis": 0} if channels else {}
    xr = real("x0", x)
    conv = net.node("Conv", [xr, real("w", first, **by_row), bias("b", "w", "x0.s")], "c.f", pads=[1] * 4)
    c = rounded("c", conv)
    cr = real("c", c)
    e = rounded("e", net.node("Conv", [cr, real("d", depthwise, **by_row)], "e.f", pads=[1] * 4, group=16))
    h = rounded("h", net.node("Conv", [real("e", e), real("v", second, **by_row)], "h.f"))
    a = rounded("a", net.node("Add", [real("h", h), cr], "a.f"))
    m = rounded("m", net.node("AveragePool", [real("a", a)], "m.f", kernel_shape=[3, 3], strides=[2, 2]))
    p = rounded("p", net.node("GlobalAveragePool", [real("m", m)], "p.f"))
    net.weights["shape"] = np.array([1, 16])
    flat = net.node("Reshape", [real("p", p), "shape"], "flat")
    columns = {"axis": 1} if channels else {}
    rounded("o", net.node("Gemm", [flat, real("f", dense, **columns), bias("g", "f", "p.s")], "o.f"))
    return with_dense(net.model(["c.q", "e.q", "h.q", "a.q", "m.q", "p.q"]), net)


def with_dense(model: onnx.ModelProto, net: Network) -> onnx.ModelProto:
    """Return the model with the dense layer's output."""
    model.graph.output.append(tensor_info("o.q", (1, 10), KINDS[net.kind]))
    return model


@pytest.mark.parametrize(("kind", "channels"), [("uint8", True), ("int8", False)])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_every_layer_is_equal_to_the_last_step(form: str, kind: str, channels: bool, tmp_path: Path) -> None:
    graph = products(kind, form, channels)
    if form == "QDQ":
        # Inner outputs keep onnxruntime from fusing: the last alone is judged.
        del graph.graph.output[:-1]
    model = loaded(graph, tmp_path)
    assert model.rounding is not None
    assert not model.rounding.uncertain
    assert_same(model, tolerance=0)


def test_a_relu_that_rounding_does_anyway_is_no_obstacle() -> None:
    net = Network("uint8", [(1, 4, 5, 5)])
    x, w = net.steps("x0", 0.02), net.weight("w", (4, 4, 3, 3), 0)
    for name, zero in (("low", 0), ("middle", 50)):
        out = net.parameters(name, 0.3, zero)
        real = [
            net.node("DequantizeLinear", part, f"{name}.{place}", **({"axis": 0} if place else {}))
            for place, part in enumerate((x, w))
        ]
        relu = net.node("Relu", [net.node("Conv", real, f"{name}.c")], f"{name}.r")
        net.node("QuantizeLinear", [relu, *out], f"{name}.q")
    grouped = fold_in_groups(net.model(["low.q", "middle.q"]), "test", {}).model.graph
    makers = {node.output[0]: node.op_type for node in grouped.node}
    assert makers["low.q"] == "QLinearConv"
    assert makers["middle.q"] == "QuantizeLinear"
    assert "middle.r" in makers


def test_groups_of_int8_are_computed_as_the_judge_computes_them_as_uint8() -> None:
    """A sum of int8 is rounded otherwise in six values of a million."""
    net = Network("int8", [(4, 4), (4, 4)])
    sides = [net.steps("x0", 0.02), net.steps("x1", 0.03)]
    real = [net.node("DequantizeLinear", each, f"{place}.r") for place, each in enumerate(sides)]
    y = net.parameters("y", 0.04)
    net.node("QuantizeLinear", [net.node("Add", real, "s"), *y], "y.q")
    net.node("DequantizeLinear", ["y.q", *y], "y")
    model = net.model([], rank=2)
    model.graph.output.append(tensor_info("y", (4, 4)))
    grouped = fold_in_groups(model, "test", {}).model.graph
    (total,) = (node for node in grouped.node if node.op_type == "QLinearAdd")
    stored = {each.name: numpy_helper.to_array(each) for each in grouped.initializer}
    zeros = [stored[total.input[place]] for place in (2, 5, 7)]
    assert [(each.dtype.name, int(each)) for each in zeros] == [("uint8", ZEROS["int8"] + 128)] * 3


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda net: net.weights.update({"b.s": np.float32(0.5)}), "a bias in other steps"),
        (lambda net: net.weights.update({"b.z": np.int32(7)}), "a bias with a zero point"),
        (lambda net: net.weights.update({"y.s": np.full(4, 0.3, np.float32), "y.z": np.zeros(4, np.uint8)}),
         "rounded by channel"),
    ],
)  # fmt: skip
def test_groups_without_integer_operator_stay_float(change: Any, what: str) -> None:
    net = Network("uint8", [(1, 4, 5, 5)])
    x, w = net.steps("x0", 0.02), net.weight("w", (4, 4, 3, 3), None)
    net.weights |= {"b": np.arange(4, dtype=np.int32), "b.z": np.int32(0)}
    net.weights["b.s"] = net.weights["x0.s"] * net.weights["w.s"]
    out = net.parameters("y", 0.3)
    change(net)
    real = [net.node("DequantizeLinear", part, f"{place}.r")
            for place, part in enumerate((x, w, ["b", "b.s", "b.z"]))]  # fmt: skip
    net.node("QuantizeLinear", [net.node("Conv", real, "c"), *out], "y.q")
    grouped = fold_in_groups(net.model(["y.q"]), "test", {}).model.graph
    assert "Conv" in {node.op_type for node in grouped.node}, what


def operators(model: onnx.ModelProto) -> set[str]:
    """Return the operators of a network whose groups are folded."""
    return {node.op_type for node in fold_in_groups(model, "test", {}).model.graph.node}


@pytest.mark.parametrize(("bias", "folded"), [((1, 5), True), ((2, 1), False), ((2, 5), False)])
@pytest.mark.parametrize("floats", [True, False])
def test_a_bias_of_rows_stays_in_floats(bias: tuple[int, ...], folded: bool, floats: bool) -> None:
    net = Network("uint8", [(2, 4)])
    parts = [net.steps("x0", 0.02), net.weight("w", (4, 5), None)]
    real = [net.node("DequantizeLinear", part, f"{place}.r") for place, part in enumerate(parts)]
    scale = net.weights["x0.s"] * net.weights["w.s"]
    steps = net.random.integers(-3000, 3000, bias).astype(np.int32)
    if floats:
        net.weights["b"] = (steps * scale).astype(np.float32)
    else:
        net.weights |= {"b.q": steps, "b.s": scale, "b.z": np.int32(0)}
        net.node("DequantizeLinear", ["b.q", "b.s", "b.z"], "b")
    out = net.parameters("y", 0.3)
    net.node("QuantizeLinear", [net.node("Gemm", [*real, "b"], "c"), *out], "y.q")
    assert bool(operators(net.model(["y.q"], rank=2)) & {"QGemm", "QGemmWithFloats"}) == folded


@pytest.mark.parametrize(("opset", "floats"), [(11, True), (12, False)])
def test_a_pool_of_steps_needs_a_set_that_has_it(opset: int, floats: bool) -> None:
    net = Network("uint8", [(1, 4, 5, 5)])
    x = net.steps("x0", 0.02)
    pool = net.node("MaxPool", [net.node("DequantizeLinear", x, "r")], "m", kernel_shape=[2, 2])
    net.node("QuantizeLinear", [pool, *x[1:]], "y.q")
    assert ("DequantizeLinear" in operators(net.model(["y.q"], opset=opset))) == floats


def test_steps_of_four_bits_stay_in_floats() -> None:
    net = Network("uint8", [(1, 4, 5, 5)])
    x = net.steps("x0", 0.02)
    relu = net.node("Relu", [net.node("DequantizeLinear", x, "r")], "m")
    net.node("QuantizeLinear", [relu, "x0.s", "four"], "y.q")
    model = net.model(["y.q"], opset=21)
    model.graph.initializer.append(helper.make_tensor("four", TensorProto.INT4, [], [3]))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT4
    assert "Relu" in operators(model)


ALL_STEPS = np.arange(256, dtype=np.float32)
PAIRS = {"x0": np.repeat(ALL_STEPS, 256).reshape(256, 256), "x1": np.tile(ALL_STEPS, (256, 1))}
SIDES = {
    "as many": PAIRS,
    "one for each row": {"x0": PAIRS["x0"][:, :1], "x1": PAIRS["x1"]},
    "a row and a column": {"x0": PAIRS["x0"][:, :1], "x1": PAIRS["x1"][:1]},
    "a row": {"x0": PAIRS["x1"][:1], "x1": PAIRS["x0"]},
}
RESNET = ((0.03587113, 125), (0.03283725, 0), (0.03852017, 0))
"""Of a residual layer of ResNet-18 where one pair of 65 536 depends on each rounding, and on the order."""


def sum_of_two(
    kind: str, inputs: dict[str, np.ndarray], parameters: Sequence[tuple[float, int]]
) -> onnx.ModelProto:
    """Return the sum of two tensors of steps; parameters are those of both and of the sum."""
    net, lowest = Network(kind, [each.shape for each in inputs.values()]), np.iinfo(kind).min
    sides = [
        [net.steps(x, 1.0, lowest)[0], *net.parameters(name, scale, zero + lowest)]
        for x, name, (scale, zero) in zip(inputs, "ab", parameters[:2], strict=True)
    ]
    scale, zero = parameters[2]
    out = net.parameters("y", scale, zero + lowest)
    net.node("QLinearAdd", [*sides[0], *sides[1], *out], "y.q", MICROSOFT)
    return net.model(["y.q"], rank=2)


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_generated_code_adds_every_pair_of_steps(kind: str, sides: str, tmp_path: Path) -> None:
    """As one function, whose differences TVM simplifies as if floats were never rounded."""
    inputs = SIDES[sides]
    model = loaded(sum_of_two(kind, inputs, RESNET), tmp_path)
    due = reference_outputs(model, inputs)
    found = computed(model, inputs, AVX2.of(2))
    np.testing.assert_array_equal(found["y.q"], due["y.q"])


scales = st.floats(1 / 128, 128, width=32)
zeros = st.integers(0, 255)


@given(
    kind=st.sampled_from(list(KINDS)),
    ratios=st.tuples(scales, scales),
    centres=st.tuples(zeros, zeros, zeros),
    y_scale=st.sampled_from([1.0, 0.0371, 0.125]),
)
@example("uint8", (0.25, 0.5), (117, 117, 117), 0.125)
@example("uint8", (1.4297125339508057, 34.5), (1, 18, 0), 0.0371)  # how zero points are summed up
@settings(max_examples=25)
def test_sums_are_rounded_as_often_as_onnxruntime_rounds(
    kind: str, ratios: tuple[float, float], centres: tuple[int, int, int], y_scale: float
) -> None:
    each = [*(np.float32(ratio * y_scale) for ratio in ratios), y_scale]
    graph = sum_of_two(kind, PAIRS, list(zip(each, centres, strict=True)))
    ours = rewrite(fold(graph, "test"), "test").model
    for node in ours.graph.node:
        node.ClearField("name")  # onnxruntime wants different ones
    np.testing.assert_array_equal(*(outputs_of(each, PAIRS) for each in (ours, graph)))


@pytest.mark.parametrize(
    ("operator", "own"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.1}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    ],
)
@pytest.mark.parametrize("same", [False, True], ids=["other scales", "equal scales"])
@pytest.mark.parametrize("kind", KINDS)
def test_operators_on_one_value(
    kind: str, same: bool, operator: str, own: dict[str, Any], tmp_path: Path
) -> None:
    net = Network(kind, [(1, 8, 14, 14)])
    x = net.steps("x0", 0.02)
    y = net.parameters("y", 0.02 if same else 0.0113, ZEROS[kind] + (0 if same else 30))
    net.node(operator, [*x, *y], "y.q", MICROSOFT, **own)
    assert_same(loaded(net.model(["y.q"]), tmp_path), tolerance=0)


def test_concatenations_choices_and_products(tmp_path: Path) -> None:
    net = Network("uint8", [(1, 8, 6, 6), (1, 8, 6, 6)])
    a, b = net.steps("x0", 0.02), net.steps("x1", 0.013, 90)
    net.node("QLinearConcat", [*net.parameters("c", 0.017), *a, *b], "c.q", MICROSOFT, axis=1)
    net.node("QLinearMul", [*a, *b, *net.parameters("m", 0.03)], "m.q", MICROSOFT)
    net.weights["mask"] = net.random.integers(0, 2, (1, 8, 6, 6)).astype(bool)
    net.node("QLinearWhere", ["mask", *a, *b, *net.parameters("w", 0.018)], "w.q", MICROSOFT)
    assert_same(loaded(net.model(["c.q", "m.q", "w.q"]), tmp_path), tolerance=0)


def test_products_of_matrices(tmp_path: Path) -> None:
    net = Network("uint8", [(2, 5, 24), (2, 24, 7)])
    a, b = net.steps("x0", 0.02), net.steps("x1", 0.013, 90)
    w = net.weight("w", (24, 16), 1)
    net.node("QLinearMatMul", [*a, *b, *net.parameters("p", 0.07)], "p.q")
    net.node("QLinearMatMul", [*a, *w, *net.parameters("o", 0.3)], "o.q")
    assert_same(loaded(net.model(["p.q", "o.q"], rank=3), tmp_path), tolerance=0)


def test_softmax_of_steps_is_a_step_off_at_most(tmp_path: Path) -> None:
    net = Network("uint8", [(3, 40)])
    x = net.steps("x0", 0.02)
    net.node("QLinearSoftmax", [*x, *net.parameters("y", 1 / 256, 0)], "y.q", MICROSOFT, axis=-1, opset=13)
    model = loaded(net.model(["y.q"], rank=2), tmp_path)
    assert model.rounding is not None
    assert model.rounding.uncertain == ("y.q",)
    assert_same(model, steps=1)
