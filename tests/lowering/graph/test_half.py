"""Networks whose products are of float16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from tests.models.rewrites.quantised.test_groups import products
from tests.models.rewrites.test_quantised_dynamic import convolutions, dynamic, lstm, perceptron
from toolchain.errors import UsageError
from toolchain.lowering.graph.constants import fold_constants
from toolchain.lowering.graph.half import halved
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions


def network(folder: Path, scale: float = 1.0) -> Path:
    """A convolution, a ReLU6, a gated residual, a transposed convolution, pools, a product and a softmax."""
    random = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        value = random.standard_normal(shape) * scale / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(value.astype("f4"), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["a", "low", "high"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["gate"]),
        helper.make_node("Mul", ["b", "gate"], ["m"]),
        helper.make_node("ConvTranspose", ["m", "v"], ["t"], strides=[2, 2]),
        helper.make_node("MaxPool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Split", ["p"], ["p1", "p2"], axis=1),
        helper.make_node("Concat", ["p2", "p1"], ["z"], axis=1),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "u", "c"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["y"]),
    ]
    bounds = [numpy_helper.from_array(np.float32(value), name) for name, value in (("low", 0), ("high", 6))]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 8, 8])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 16, 8, 8]),
        ],
        [
            constant("w", 40, 8, 3, 3), constant("v", 40, 16, 2, 2), constant("u", 10, 40), constant("c", 10),
            *bounds,
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "half.onnx")
    return folder / "half.onnx"


def half(model: Model) -> tvm.IRModule:
    """Return the network with products of float16."""
    return halved(model.module, model.source)


def operators(model: Model) -> dict[str, set[str]]:
    """Return the dtypes of what every operator reads first."""
    found: dict[str, set[str]] = {}

    def visit(node: relax.Expr) -> None:
        if isinstance(node, relax.Call) and node.args and isinstance(node.args[0].ty, relax.TensorType):
            found.setdefault(node.op.name.removeprefix("relax."), set()).add(str(node.args[0].ty.dtype))

    relax.analysis.post_order_visit(half(model)["main"], visit)
    return found


def test_products_are_float16_and_what_needs_range_is_not(tmp_path: Path) -> None:
    model = load_model(str(network(tmp_path)), ModelOptions())
    dtypes = operators(model)
    for product in ("nn.conv2d", "nn.conv2d_transpose", "matmul", "nn.max_pool2d"):
        assert dtypes[product] == {"float16"}, product
    for wide in ("nn.softmax", "mean", "sigmoid", "multiply", "add"):
        assert dtypes[wide] == {"float32"}, wide
    assert {spec.dtype for spec in (*model.inputs, *model.outputs)} == {"float32"}
    (before, after) = (module["main"] for module in (model.module, half(model)))
    assert [value.ty for value in before.params] == [value.ty for value in after.params]
    assert before.ret_ty == after.ret_ty


@pytest.mark.slow
def test_the_network_computes_what_it_did(tmp_path: Path) -> None:
    model = load_model(str(network(tmp_path)), ModelOptions())
    inputs = sample_inputs(model)
    executable = tvm.compile(fold_constants(half(model)), target="llvm")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(inputs["x"]))
    for output, expected in zip(found, reference_outputs(model, inputs).values(), strict=True):
        assert output.numpy().dtype == np.float32
        assert np.abs(output.numpy() - expected).max() < 5e-3 * np.abs(expected).max()


@pytest.mark.slow
def test_a_value_that_is_only_passed_on_keeps_its_range(tmp_path: Path) -> None:
    """Beside the result of a convolution in a concatenation."""
    w = numpy_helper.from_array(np.ones((1, 1, 1, 1), "f4"), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Concat", ["a", "wide"], ["y"], axis=1),
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 2, 2]) for name in ("x", "wide")]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 2, 2])]
    graph = helper.make_graph(nodes, "wide", info, out, [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "wide.onnx")
    executable = tvm.compile(half(load_model(str(tmp_path / "wide.onnx"), ModelOptions())), target="llvm")
    given = [tvm.runtime.tensor(np.full((1, 1, 2, 2), value, "f4")) for value in (2, 100_000)]
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](*given).numpy()
    assert found[:, 0].tolist() == [[[2, 2], [2, 2]]] and found[:, 1].tolist() == [[[1e5, 1e5], [1e5, 1e5]]]


def test_a_constant_that_no_float16_holds_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--dtype float16: .*half\.onnx has a constant of .*65504"
    ) as caught:
        half(load_model(str(network(tmp_path, scale=1e6)), ModelOptions()))
    assert "--dtype float32" in (caught.value.hint or "")


@pytest.mark.slow
def test_sums_that_are_rounded_to_integers_stay_exact(tmp_path: Path) -> None:
    """They go beyond 65504, and a bit of float16 would be many steps."""
    graph = products("uint8", "QDQ", True)
    del graph.graph.output[:-1]
    onnx.save(graph, tmp_path / "steps.onnx")
    model = load_model(str(tmp_path / "steps.onnx"), ModelOptions())
    assert operators(model)["nn.conv2d"] == {"float32"}
    inputs = sample_inputs(model)
    executable = tvm.compile(fold_constants(half(model)), target="llvm")
    found = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(inputs["x0"]))
    (expected,) = reference_outputs(model, inputs).values()
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "product"), [(perceptron, "matmul"), (lstm, "matmul"), (convolutions, "nn.conv2d")]
)
def test_products_of_integers_stay_exact(
    make: Callable[[], onnx.ModelProto], product: str, tmp_path: Path
) -> None:
    """The scales of `quantize_dynamic` come behind the sums, and may not be needed to round."""
    onnx.save(dynamic(make(), tmp_path), tmp_path / "steps.onnx")
    found = operators(load_model(str(tmp_path / "steps.onnx"), ModelOptions()))[product]
    assert found <= ({"float32", "float16"} if make is perceptron else {"float32"})
    assert "float32" in found
