"""Which nodes become integers, which tensors share a scale, and why others stay in floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.models.quantising.affine.networks import Net
from toolchain.models.quantising.affine_plan import Index, IntegerPlan, IntegerRole, plan_integers
from toolchain.models.quantising.affine_quantiser import shared_scales


def started() -> Net:
    """Return a network with one convolution, `first`, of 4 channels."""
    net = Net((1, 3, 8, 8))
    net.conv("data", "first", (3, 4), 3)
    return net


def planned(model: onnx.ModelProto) -> tuple[IntegerPlan, Index]:
    index = Index(model)
    return plan_integers(index), index


def roles(model: onnx.ModelProto) -> dict[str, str]:
    plan, index = planned(model)
    return {index.nodes[at].name: role.value for at, role in plan.roles.items()}


def relu(net: Net) -> None:
    net.node("Relu", "first", "x")


def clip(net: Net) -> None:
    net.store("low", np.float32(-1))
    net.store("high", np.float32(6))
    net.node("Clip", "first low high", "x")


@pytest.mark.parametrize("limit", [relu, clip])
def test_implied_limit_is_not_a_layer(limit: Callable[[Net], None]) -> None:
    net = started()
    limit(net)
    net.conv("x", "y", (4, 2))
    plan, index = planned(net.model("y"))
    assert [role.value for role in plan.roles.values()] == ["convolution", "limit", "convolution"]
    assert plan.results[index.makers["first"]] == "x"
    assert plan.rounded == {"data", "x", "y"} and not plan.left


def test_a_clip_without_0_is_an_activation() -> None:
    net = started()
    net.store("low", np.float32(1))
    net.node("Clip", "first low", "x")
    net.conv("x", "y", (4, 2))
    plan, _index = planned(net.model("y"))
    assert IntegerRole.FUNCTION in plan.roles.values() and plan.rounded == {"data", "first", "x", "y"}


def test_a_relu_beside_another_reader_is_an_activation() -> None:
    net = started()
    net.node("Add", f"{net.conv(net.node('Relu', 'first', 'r'), 'second', (4, 4))} first", "sum")
    net.conv("sum", "y", (4, 2))
    plan, index = planned(net.model("y"))
    assert plan.roles[index.makers["r"]] is IntegerRole.FUNCTION
    assert plan.rounded == {"data", "first", "r", "second", "sum", "y"}


def test_an_activation_of_several_nodes_is_rounded_once() -> None:
    net = started()
    net.node("Mul", f"first {net.node('Sigmoid', 'first', 'gate')}", "silu")
    net.conv("silu", "y", (4, 2))
    plan, _index = planned(net.model("y"))
    assert plan.rounded == {"data", "first", "silu", "y"}


def test_tensor_read_by_float_layers_only_stays_float() -> None:
    net = started()
    net.node("Softmax", net.node("Flatten", net.node("GlobalAveragePool", "first", "pool"), "flat"), "y")
    plan, _index = planned(net.model("y"))
    assert [role.value for role in plan.roles.values()] == ["convolution"]
    assert plan.left == {
        "pool": "no convolution or dense layer reads its results",
        "y": "Softmax has no integer form",
    }


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ("data w b", "its weights are computed"),
        ("data first.w b", "its bias is computed"),
        ("w first.w first.b", ""),
    ],
)
def test_a_convolution_without_stored_weights_stays_in_floats(inputs: str, reason: str) -> None:
    net = started()
    net.node("Mul", f"{net.weight('v', 4, 3, 3, 3)} {net.node('ReduceMax', 'data', 'm')}", "w")
    net.node("Squeeze", net.node("ReduceMax", "first", "top", axes=[0, 2, 3]), "b")
    net.node("Conv", inputs, "y")
    plan, index = planned(net.model("y"))
    assert plan.left.get("y", "") == reason
    assert (index.makers["y"] in plan.roles) == (not reason)


@pytest.mark.parametrize(
    ("bias", "reason"),
    [((4,), ""), ((1, 4), ""), ((1, 1), ""), ((4, 1), "its bias differs by row")],
)
def test_a_dense_layer_whose_bias_differs_by_row_stays_in_floats(bias: tuple[int, ...], reason: str) -> None:
    """A bias of rows has as many numbers as one of columns if the product is square."""
    net = Net((4, 8))
    net.node("Gemm", f"data {net.weight('w', 8, 4)} {net.weight('b', *bias)}", "y")
    plan, _index = planned(net.model("y"))
    assert plan.left.get("y", "") == reason and bool(plan.roles) == (not reason)


def test_values_of_another_type_stay_as_they_are() -> None:
    net = started()
    net.node("Cast", "first", "whole", to=onnx.TensorProto.INT32)
    net.node("Cast", net.node("Add", "whole whole", "twice"), "real", to=onnx.TensorProto.FLOAT)
    net.conv("real", "y", (4, 2))
    assert roles(net.model("y")) == {"first": "convolution", "y": "convolution"}


def shared(model: onnx.ModelProto) -> dict[str, str]:
    plan, index = planned(model)
    return shared_scales(index, plan)


def branches(left: str, right: str, *, more: bool = False) -> onnx.ModelProto:
    """Return two branches behind activations (or none), concatenated; `more`: one is read elsewhere too."""
    net = started()
    ends = []
    for name, operator in (("left", left), ("right", right)):
        net.conv("first", name, (4, 4))
        ends.append(net.node(operator, name, f"{name}.act") if operator else name)
    net.node("Concat", " ".join(ends), "both", axis=1)
    net.conv("both", "y", (8, 2))
    outputs = ["y"]
    if more:
        outputs.append(net.conv(ends[0], "z", (4, 2)))
    return net.model(*outputs)


def test_operands_of_a_concatenation_have_its_scale() -> None:
    found = shared(branches("Relu", "Relu"))
    assert found["left.act"] == found["right.act"] == found["both"] == "both"
    assert found["first"] == "first"


def test_shared_operand_keeps_its_scale() -> None:
    found = shared(branches("Relu", "Relu", more=True))
    assert found["left.act"] == "left.act" and found["right.act"] == "both"


def test_an_operand_limited_by_rounding_has_no_scale_beyond_its_limits() -> None:
    """The scale of both holds negative numbers, which the Relu may not let through."""
    found = shared(branches("Relu", ""))
    assert found["left.act"] == "left.act" and found["right"] == "both"


def test_moved_tensor_keeps_its_scale() -> None:
    net = started()
    x = net.node("MaxPool", "first", "pooled", kernel_shape=[2, 2])
    net.conv(net.node("Transpose", x, "turned", perm=[0, 1, 3, 2]), "y", (4, 2))
    found = shared(net.model("y"))
    assert found["pooled"] == found["turned"] == "first"
