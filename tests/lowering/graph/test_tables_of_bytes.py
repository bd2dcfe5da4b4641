"""Functions of one quantised byte are looked up, and give the numbers that their operators define."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import tirx

from tests.lowering.executable import virtual_machine
from tests.models.graphs import graph_of, tensor_info
from toolchain.arrays import Array
from toolchain.backends.packed.backend import in_integers
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AARCH64, AVX2, AVX512
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

TARGET = target_for(load_profile("x86_64")).target
SCALES = {"s0": np.float32(0.0437), "s1": np.float32(1 / 255), "s2": np.float32(0.0231)}
SHAPE = (1, 16, 4, 4)


def node(operator: str, inputs: str, output: str, **attributes: float) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


SILU = (
    node("Sigmoid", "x", "e"),
    node("QuantizeLinear", "e s1 z1", "q1"),
    node("DequantizeLinear", "q1 s1 z1", "d1"),
    node("Mul", "x d1", "y"),
)
GELU = (
    node("Div", "x root", "a"),
    node("Erf", "a", "b"),
    node("Add", "b one", "c"),
    node("Mul", "x c", "d"),
    node("Mul", "d half", "y"),
)
FUNCTIONS = {
    "Sigmoid": (node("Sigmoid", "x", "y"),),
    "Tanh": (node("Tanh", "x", "y"),),
    "SiLU": SILU,
    "Gelu": GELU,
    "HardSwish": (node("HardSwish", "x", "y"),),
}


def network(function: str, zero: Array, folder: Path) -> Path:
    """Write a network of bytes: a function between two quantised values."""
    numbers = {
        **SCALES,
        "z0": zero,
        "z1": np.zeros((), zero.dtype),
        "z2": np.asarray(zero - 40, zero.dtype),
        **{name: np.float32(value) for name, value in (("root", 2**0.5), ("one", 1), ("half", 0.5))},
    }
    code = helper.np_dtype_to_tensor_dtype(zero.dtype)
    nodes = [
        node("DequantizeLinear", "in s0 z0", "x"),
        *FUNCTIONS[function],
        node("QuantizeLinear", "y s2 z2", "out"),
    ]
    ends = [tensor_info(name, SHAPE, code) for name in ("in", "out")]
    onnx.save(graph_of(nodes, ends[:1], ends[1:], numbers), str(folder / "network.onnx"))
    return folder / "network.onnx"


def tables(module: tvm.IRModule) -> list[str]:
    """Return the names of a network's lookups."""
    return [str(var.name_hint) for var, func in module.functions.items()
            if isinstance(func, tirx.PrimFunc) and str(var.name_hint).startswith("table")]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("zero", [np.uint8(117), np.int8(-3)], ids=["uint8", "int8"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_byte_has_onnxruntimes_result(function: str, zero: Array, tmp_path: Path) -> None:
    path = network(function, np.asarray(zero), tmp_path)
    ends = np.iinfo(zero.dtype)
    x = np.arange(ends.min, ends.max + 1).astype(zero.dtype).reshape(SHAPE)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (due,) = onnxruntime.InferenceSession(str(path), options).run(None, {"in": x})
    machine = AVX2.of(1)
    module = in_integers(load_model(str(path), ModelOptions()).module, machine)
    assert len(tables(module)) == 1
    made = rewrite(fuse(module, TARGET), Choices(machine))
    result = virtual_machine(made.module, TARGET)["main"](tvm.runtime.tensor(x)).numpy()
    assert np.array_equal(result, due)


@pytest.mark.parametrize(
    ("function", "machine", "looked_up"),
    [
        ("SiLU", AVX512, True),
        ("SiLU", AARCH64, True),
        ("HardSwish", AARCH64, True),
        ("HardSwish", AVX512, False),
    ],
)
def test_a_table_is_used_where_it_takes_fewer_instructions(
    function: str, machine: Machine, looked_up: bool, tmp_path: Path
) -> None:
    path = network(function, np.asarray(np.uint8(117)), tmp_path)
    module = in_integers(load_model(str(path), ModelOptions()).module, machine.of(1))
    assert bool(tables(module)) == looked_up


def test_a_function_of_two_bytes_has_no_table(tmp_path: Path) -> None:
    numbers = {**SCALES, **{f"z{number}": np.uint8(9) for number in range(3)}}
    nodes = [
        node("DequantizeLinear", "in s0 z0", "a"),
        node("DequantizeLinear", "other s0 z0", "b"),
        node("Mul", "a b", "x"),
        node("Sigmoid", "x", "y"),
        node("QuantizeLinear", "y s1 z1", "out"),
    ]
    ends = [tensor_info(name, SHAPE, TensorProto.UINT8) for name in ("in", "other", "out")]
    onnx.save(graph_of(nodes, ends[:2], ends[2:], numbers), str(tmp_path / "network.onnx"))
    model = load_model(str(tmp_path / "network.onnx"), ModelOptions())
    assert not tables(in_integers(model.module, AVX2.of(1)))


def test_scales_of_channels_have_no_table(tmp_path: Path) -> None:
    numbers = {"s": np.linspace(0.01, 0.02, 16, dtype=np.float32), "z": np.full(16, 9, np.uint8)}
    nodes = [
        node("DequantizeLinear", "in s z", "x", axis=1),
        node("Sigmoid", "x", "y"),
        node("QuantizeLinear", "y s z", "out", axis=1),
    ]
    ends = [tensor_info(name, SHAPE, TensorProto.UINT8) for name in ("in", "out")]
    onnx.save(graph_of(nodes, ends[:1], ends[1:], numbers), str(tmp_path / "network.onnx"))
    model = load_model(str(tmp_path / "network.onnx"), ModelOptions())
    assert not tables(in_integers(model.module, AVX2.of(1)))
