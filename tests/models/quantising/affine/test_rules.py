"""What is rewritten before quantising computes the same as before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from tests.models.original import outputs_of
from tests.models.quantising.affine.networks import Net
from toolchain.models.quantising.affine_quantiser import simplified


def tokens(shape: tuple[int, ...], bias: tuple[int, ...], *, first: bool = False) -> Net:
    net = Net(shape)
    operands = ["data " + net.weight("w", shape[-1], 5), net.weight("b", *bias)]
    product = net.node("MatMul", operands[0], "p")
    net.node("Add", f"b {product}" if first else f"{product} b", "y")
    return net


def pool(*, keepdims: int, opset_axes: bool = False) -> Net:
    net = Net()
    axes = {} if opset_axes else {"axes": [-2, -1]}
    net.node("ReduceMean", f"data {net.store('axes', np.array([2, 3]))}" if opset_axes else "data", "y",
             keepdims=keepdims, **axes)  # fmt: skip
    return net


def norm() -> Net:
    net = Net()
    net.norm(net.node("Relu", "data", "r"), "y", 3)
    return net


@pytest.mark.parametrize(
    ("make", "opset", "wanted"),
    [
        (lambda: tokens((2, 4), (5,)), 17, {"Gemm"}),
        (lambda: tokens((2, 4), (1, 5), first=True), 17, {"Gemm"}),
        (lambda: tokens((2, 3, 4), (5,)), 17, {"Reshape", "Gemm"}),
        (lambda: tokens((2, 3, 4), (1,)), 17, {"Reshape", "Gemm"}),
        (lambda: tokens((2, 3, 4), (3, 1)), 17, {"MatMul", "Add"}),
        (lambda: tokens((2, 3, 4), (2, 1, 5)), 17, {"MatMul", "Add"}),
        (lambda: tokens((2, 3, 4), (1, 1, 5)), 17, {"Reshape", "Gemm"}),
        (lambda: tokens((5, 4), (5, 1)), 17, {"MatMul", "Add"}),
        (lambda: tokens((1, 4), (5, 1)), 17, {"MatMul", "Add"}),
        (lambda: tokens((2, 4), (1, 1, 5)), 17, {"MatMul", "Add"}),
        (lambda: pool(keepdims=1), 17, {"GlobalAveragePool"}),
        (lambda: pool(keepdims=0), 17, {"GlobalAveragePool", "Reshape"}),
        (lambda: pool(keepdims=0, opset_axes=True), 18, {"GlobalAveragePool", "Reshape"}),
        (norm, 17, {"Relu", "Conv"}),
    ],
)
def test_rules_keep_the_result(make: Callable[[], Net], opset: int, wanted: set[str]) -> None:
    net = make()
    model = net.model("y", opset=opset)
    plain = simplified(model, "net.onnx")
    assert {node.op_type for node in plain.graph.node} == wanted
    data = np.random.default_rng(5).standard_normal(net.shape).astype(np.float32)
    np.testing.assert_allclose(outputs_of(plain, {"data": data})[0], outputs_of(model, {"data": data})[0],
                               rtol=1e-5, atol=1e-6)  # fmt: skip
    onnx.checker.check_model(plain)


def test_a_mean_of_features_stays() -> None:
    net = Net((1, 4, 6))
    net.node("ReduceMean", "data", "y", axes=[2])
    assert [node.op_type for node in simplified(net.model("y"), "net").graph.node] == ["ReduceMean"]
