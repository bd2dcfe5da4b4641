"""Which convolutions become integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.quantising.shift_sites import Sites, find_sites

WEIGHTS = {
    **{f"w{width}": np.ones((4, width, 3, 3), np.float32) for width in (1, 3, 4)},
    "small": np.ones((4, 4, 1, 1), np.float32),
    "zero": np.float32(0),
    "six": np.float32(6),
    "half": np.float32(0.5),
}


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], output, **attributes)


def conv(x: str, output: str, weight: str = "w4", **attributes: Any) -> onnx.NodeProto:
    return node("Conv", f"{x} {weight}", output, **({"pads": [1] * 4} | attributes))


FIRST = conv("data", "first", "w3")


def sites(*nodes: onnx.NodeProto, outputs: str = "y") -> Sites:
    model = graph_of(
        [FIRST, *nodes],
        [tensor_info("data", (1, 3, 8, 8))],
        [tensor_info(name, None) for name in outputs.split()],
        WEIGHTS,
    )
    return find_sites(onnx.shape_inference.infer_shapes(model))


def test_the_first_stays_in_floats_of_rounded_operands() -> None:
    found = sites(conv("first", "y"))
    assert [site.name for site in found.integers] == ["y"]
    assert {each.name for each in found.rounded.values()} == {"first"} and not found.left


@pytest.mark.parametrize(
    ("behind", "result", "low", "high"),
    [
        ((node("Relu", "c", "y"),), "y", 0.0, math.inf),
        ((node("Clip", "c zero six", "y"),), "y", 0.0, 6.0),
        ((node("Clip", "c zero", "y"),), "y", 0.0, math.inf),
        ((node("Sigmoid", "c", "y"),), "c", -math.inf, math.inf),
        ((node("Relu", "c", "r"), node("Neg", "c", "n"), node("Add", "r n", "y")), "c", -math.inf, math.inf),
        ((node("Add", "c first", "y"),), "y", -math.inf, math.inf),
        ((node("Add", "c first", "a"), node("Relu", "a", "y")), "y", 0.0, math.inf),
        ((node("Add", "c half", "y"),), "c", -math.inf, math.inf),
        ((node("Sigmoid", "first", "s"), node("Add", "c s", "y")), "c", -math.inf, math.inf),
    ],
    ids=["relu", "clip", "open clip", "sigmoid", "two readers", "sum", "sum relu", "constant", "inexact sum"],
)
def test_site_includes_residual_and_activation(
    behind: tuple[onnx.NodeProto, ...], result: str, low: float, high: float
) -> None:
    (site,) = sites(conv("first", "c"), *behind).integers
    assert (site.result, site.low, site.high) == (result, low, high)
    assert site.residual == ("first" if result != "c" and "Add" in [each.op_type for each in behind] else "")


def test_larger_of_two_added_convolutions_takes_the_residual() -> None:
    found = sites(conv("first", "big"), conv("first", "p", "small", pads=[0] * 4), node("Add", "big p", "y"))
    assert [(site.name, site.residual) for site in found.integers] == [("p", ""), ("big", "p")]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ((node("Sigmoid", "first", "s"), conv("s", "y")), "behind Sigmoid, which programs round differently"),
        ((node("Mul", "first half", "m"), conv("m", "y")), "behind Mul, which programs round differently"),
        (
            (node("Tanh", "first", "t"), node("Relu", "t", "r"), conv("r", "y")),
            "behind Tanh, which programs round differently",
        ),
        ((node("Mul", "w4 half", "w"), conv("first", "y", "w")), "its weights are computed"),
    ],
)
def test_unquantised_layers_have_reasons(nodes: tuple[onnx.NodeProto, ...], reason: str) -> None:
    found = sites(*nodes)
    assert not found.integers and found.left == {"y": reason}


def test_groups_and_gaps_stay_in_floats_of_rounded_operands() -> None:
    found = sites(conv("first", "deep", "w1", group=4), conv("deep", "y", dilations=[2, 2], pads=[2] * 4))
    assert not found.integers and {each.name for each in found.rounded.values()} == {"first", "deep", "y"}


def test_an_output_of_the_network_is_not_hidden_in_a_site() -> None:
    (site,) = sites(conv("first", "y"), node("Relu", "y", "z"), outputs="y z").integers
    assert site.result == "y" and site.low == -math.inf
