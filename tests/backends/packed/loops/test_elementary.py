"""exp, sigmoid, tanh, erf, log and powers without the C library: exact to a few last places, everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from scipy import special
from tvm import tirx
from tvm.tirx.script.builder import ir

from benchmarks.arm.loops import hot_loops
from tests.backends.packed.computed import MACHINES, computed, error, loaded, named
from toolchain.backends.packed.loops.elementary import exp_to_one
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machine import Machine
from toolchain.lowering.objects.export import export_objects
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

X86 = MACHINES[:2]
"""One multiplies by inverses, the other divides."""
INF, NAN = float("inf"), float("nan")


def _least(x: tirx.Expr) -> tirx.Expr:
    zero = tirx.const(0, "float32")
    return tirx.Select(x > zero, zero, x)


COUNT = 1 << 12  # numbers at a time
# name -> what TVM calls, what it is in float64, the largest error allowed in last places
FUNCTIONS: dict[str, tuple[Callable[..., tirx.Expr], Callable[[np.ndarray], np.ndarray], float]] = {
    "exp": (tirx.exp, np.exp, 1.1),
    "exp to one": (
        lambda x: exp_to_one(_least(x.astype("float32"))).astype(str(x.ty)),
        lambda x: np.exp(np.minimum(x, 0)),
        1.1,
    ),
    "sigmoid": (tirx.sigmoid, special.expit, 2.5),
    "silu": (lambda x: x * tirx.sigmoid(x), lambda x: x * special.expit(x), 3),
    "tanh": (tirx.tanh, np.tanh, 3),
    "erf": (tirx.erf, special.erf, 1.5),
    "log": (tirx.log, np.log, 1),
    "root": (
        lambda x: tirx.power(x, tirx.const(0.5, x.ty.dtype)),
        lambda x: np.where(np.isneginf(x), INF, np.sqrt(x)),
        0.51,
    ),
    "cube": (lambda x: tirx.power(x, tirx.const(3, x.ty.dtype)), lambda x: np.power(x, 3), 1.6),
}
SPECIAL = {
    "exp": [
        (0, 1),
        (-0.0, 1),
        (INF, INF),
        (-INF, 0),
        (NAN, NAN),
        (88.73, INF),
        (88.72, 3.3931806e38),
        (-104, 0),
    ],
    "silu": [
        (0, 0),
        (-0.0, -0.0),
        (INF, INF),
        (-200, -0.0),
        (NAN, NAN),
        (200, 200),
        (-3e38, -0.0),
        (1, 0.7310586),
    ],
    "sigmoid": [(0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (200, 1), (-200, 0)],
    "tanh": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (1e-45, 1e-45), (-1e-30, -1e-30)],
    "erf": [(0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NAN, NAN), (5, 1), (-3e38, -1)],
    "log": [
        (1, 0),
        (0, -INF),
        (-0.0, -INF),
        (INF, INF),
        (-INF, NAN),
        (-1, NAN),
        (NAN, NAN),
        (1e-45, -103.27893),
    ],
    "root": [(0, 0), (-0.0, 0), (INF, INF), (-INF, INF), (NAN, NAN), (-1, NAN), (4, 2)],
    "cube": [(0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-2, -8)],
}


def function(name: str, lanes: int, kind: str = "float32", machine: Machine = MACHINES[0]) -> tirx.PrimFunc:
    """Return a function that computes so many numbers, by vectors, in code for a machine."""

    def body(nest: Nest) -> None:
        x, y = (ir.arg(each, ir.buffer((COUNT,), kind)) for each in "xy")
        with nest.serial(COUNT // lanes) as i, nest.vector(lanes) as lane:
            place = i * lanes + lane
            ir.buffer_store(y, FUNCTIONS[name][0](tirx.BufferLoad(x, [place])), [place])

    return build(machine, body).with_attr("global_symbol", name)


@cache
def library(name: str, kind: str = "float32", machine: Machine = MACHINES[0]) -> tvm.runtime.Executable:
    module = tvm.IRModule({name: function(name, 8, kind, machine)})
    return tvm.compile(module, target=target_for(load_profile("x86_64")).target)


def found(name: str, numbers: np.ndarray, machine: Machine = MACHINES[0]) -> np.ndarray:
    """Return what the generated code makes of any count of numbers, in their type."""
    whole = np.resize(numbers, -(-numbers.size // COUNT) * COUNT)
    out = tvm.runtime.tensor(np.empty(COUNT, numbers.dtype))
    parts = []
    for part in whole.reshape(-1, COUNT):
        library(name, str(numbers.dtype), machine)[name](tvm.runtime.tensor(part), out)
        parts.append(out.numpy())
    return np.concatenate(parts)[: numbers.size]


def last_places(name: str, numbers: np.ndarray, machine: Machine = MACHINES[0]) -> float:
    """Return the largest error in units in the last place; what is no normal number may be 0."""
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name][1](numbers.astype("f8"))
        expected = exact.astype(numbers.dtype)
        value = found(name, numbers, machine)
        errors = np.abs(value.astype("f8") - exact) / np.spacing(np.abs(expected)).astype("f8")
        factor = np.abs(numbers) if name == "silu" else 1  # of a sigmoid that is no normal number
        tiny = np.abs(exact) < 2 * np.finfo(numbers.dtype).tiny * factor
    same = (value == expected) | (np.isnan(value) & np.isnan(expected)) | (tiny & (value == 0))
    return float(np.where(same, 0, np.where(np.isnan(errors), np.inf, errors)).max())


@pytest.mark.parametrize("machine", X86, ids=named)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_exact_to_a_few_last_places(name: str, machine: Machine) -> None:
    every = np.arange(0, 2**32, 9973, dtype="u8").astype("u4").view("f4")
    dense = np.linspace(-110, 110, 1 << 18, dtype="f4")
    near = np.linspace(-5, 5, 1 << 18, dtype="f4")
    assert last_places(name, np.concatenate([every, dense, near]), machine) <= FUNCTIONS[name][2]


@given(name=st.sampled_from(sorted(FUNCTIONS)), numbers=st.lists(st.floats(width=32), min_size=1))
def test_whatever_the_number(name: str, numbers: list[float]) -> None:
    assert last_places(name, np.array(numbers, "f4")) <= FUNCTIONS[name][2]


@pytest.mark.parametrize("machine", X86, ids=named)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, machine: Machine) -> None:
    numbers, expected = np.array(SPECIAL[name], "f4").T
    value = found(name, numbers, machine)
    np.testing.assert_allclose(value, expected, rtol=1e-7)
    there = ~np.isnan(expected)
    assert (np.signbit(value) == np.signbit(expected))[there].all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_as_from_float32(name: str) -> None:
    every = np.arange(1 << 16, dtype="u2").view("f2")
    machine = X86[name == "silu"]  # a product of two halves to the other one
    assert last_places(name, every, machine) <= 0.51


@pytest.mark.parametrize("board", ["rk3399", "pynq"])
def test_by_vectors_on_arm(board: str, tmp_path: Path) -> None:
    functions = {name: function(name, 4) for name in FUNCTIONS}
    executable = tvm.compile(tvm.IRModule(functions), target=target_for(load_profile(board)).target)
    (only,) = export_objects(executable, tmp_path)
    loops = hot_loops(only, 1)
    # a root multiplies nothing
    assert len(loops) == len(FUNCTIONS) - 1
    assert [loop.calls for loop in loops] == [0] * len(loops)


def test_silu_where_it_is_not_written_out() -> None:
    """It has no function to call: in float64, and where a value may be computed only under a condition."""

    def gated(x: tirx.Expr) -> tirx.Expr:
        return x * tirx.sigmoid(x)

    def guarded(x: tirx.Expr) -> tirx.Expr:
        return tirx.tanh(tirx.if_then_else(x > tirx.const(0, str(x.ty)), gated(x), x))

    def body(nest: Nest) -> None:
        names = ("x", "y", "wide", "long")
        kinds = ("float32", "float32", "float64", "float64")
        x, y, wide, long = (ir.arg(n, ir.buffer((8,), k)) for n, k in zip(names, kinds, strict=True))
        with nest.serial(8) as i:
            ir.buffer_store(y, guarded(x[i]), [i])
            ir.buffer_store(long, gated(wide[i]), [i])

    module = tvm.IRModule({"main": build(MACHINES[1], body).with_attr("global_symbol", "main")})
    numbers = np.linspace(-3, 3, 8)
    x, y, wide, long = (tvm.runtime.tensor(numbers.astype(kind)) for kind in ("f4", "f4", "f8", "f8"))
    tvm.compile(module, target=target_for(load_profile("x86_64")).target)["main"](x, y, wide, long)
    exact = numbers * special.expit(numbers)
    np.testing.assert_allclose(long.numpy(), exact, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), np.tanh(np.where(numbers > 0, exact, numbers)), rtol=1e-6)


ACTIVATIONS: dict[str, list[tuple[str, list[str], dict[str, Any]]]] = {
    "softmax": [("Softmax", ["x"], {"axis": -1})],
    "log softmax": [("LogSoftmax", ["x"], {"axis": 1})],
    "sigmoid": [("Sigmoid", ["x"], {})],
    "sinh": [("Sinh", ["x"], {})],
    "cosh": [("Cosh", ["x"], {})],
    "tanh": [("Tanh", ["x"], {})],
    "silu": [("Sigmoid", ["x"], {}), ("Mul", ["x", "0"], {})],
    "gelu": [("Gelu", ["x"], {})],
    "quick gelu": [("Gelu", ["x"], {"approximate": "tanh"})],
    "softplus": [("Softplus", ["x"], {})],
    # functions of functions: TVM takes hours for three of them, written within each other
    "mish": [("Softplus", ["x"], {}), ("Tanh", ["0"], {}), ("Mul", ["x", "1"], {})],
    "elu": [("Elu", ["x"], {})],
}


@pytest.mark.parametrize("machine", X86, ids=named)
def test_activations_are_onnxruntimes(machine: Machine) -> None:
    nodes, outputs = [], []
    for name, steps in ACTIVATIONS.items():
        for place, (kind, inputs, attributes) in enumerate(steps):
            last = place == len(steps) - 1
            out = name.replace(" ", "_") if last else f"{name}{place}"
            taken = [each if each == "x" else f"{name}{each}" for each in inputs]
            nodes.append(helper.make_node(kind, taken, [out], **attributes))
        outputs.append(helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 20, 7, 9]))
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 20, 7, 9])
    graph = helper.make_graph(nodes, "activations", [entry], outputs)
    model = loaded(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
    onnx.checker.check_graph(graph)
    fed = {"x": 6 * sample_inputs(model)["x"]}
    expected = reference_outputs(model, fed)
    value = computed(model, fed, machine)
    assert {name: error(value[name], expected[name]) < 2e-6 for name in expected} == dict.fromkeys(
        expected, True
    )


def test_a_function_of_a_long_expression_compiles_soon() -> None:
    """Of one that became int32 and a float again, as dynamic quantisation has them: it took minutes."""
    nodes = [
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Cast", ["whole"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "step"], ["scaled"]),
        helper.make_node("Tanh", ["scaled"], ["y"]),
    ]
    entry, end = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 20, 7, 9]) for name in "xy")
    step = helper.make_tensor("step", TensorProto.FLOAT, [], [0.3])
    graph = helper.make_graph(nodes, "long", [entry], [end], [step])
    model = loaded(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    fed = {"x": 6 * sample_inputs(model)["x"]}
    start = time.process_time()
    found = computed(model, fed, MACHINES[0])
    assert time.process_time() - start < 10
    assert error(found["y"], reference_outputs(model, fed)["y"]) < 2e-6
