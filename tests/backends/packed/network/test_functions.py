"""What is read of a network's functions, and whose choice decides for what was cut from one."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi
from tvm.ir.expr import TensorLoad

from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.network import functions as of_functions
from toolchain.backends.packed.network.alone import alone
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.functions import Functions, called, variables
from toolchain.backends.packed.network.plan import plan
from toolchain.backends.packed.network.steps import Generated
from toolchain.backends.packed.recognise import read as reading
from toolchain.backends.packed.recognise.read import Expr, loads, read
from toolchain.lowering.functions.tasks import extract_tasks

MACHINE = machines.AVX2.of(2)


def attention() -> tirx.PrimFunc:
    """Return softmax(q k^T) v, as one function."""
    q, k, v = (te.placeholder(shape, name=name) for name, shape in zip("qkv", SHAPES, strict=True))
    scores = topi.nn.softmax(topi.nn.batch_matmul(q, k))
    out = topi.nn.batch_matmul(scores, v, transpose_b=False)
    return te.create_prim_func([q, k, v, out]).without_attr("global_symbol")


SHAPES = ((2, 5, 8), (2, 7, 8), (2, 7, 8))


def test_a_function_is_read_once_and_an_unreadable_one_is_none() -> None:
    empty = te.placeholder((0, 4), name="x")
    func = te.create_prim_func([empty, te.compute((0, 4), lambda i, j: empty[i, j])])
    functions = Functions(tvm.IRModule({"attention": attention(), "empty": func}), MACHINE)
    found = functions["attention"]
    assert found is not None
    assert found is functions["attention"]
    assert [work is not None for _part, work in found.parts] == [True, False, True]
    assert functions["empty"] is None


def test_one_that_stores_elsewhere_than_at_its_axes_is_none() -> None:
    x = te.placeholder((8,), name="x")
    func = te.create_prim_func([x, te.compute((8,), lambda i: x[i] + 1.0)])

    def turned(store: tirx.BufferStore, _mutator: object) -> tirx.BufferStore:
        return tirx.BufferStore(store.buffer, store.value, [7 - store.indices[0]])

    other = tvm_ffi.structural_mutate(func, [(tirx.BufferStore, turned)])
    functions = Functions(tvm.IRModule({"straight": func, "turned": other}), MACHINE)
    assert functions["straight"] is not None
    assert functions["turned"] is None


def test_what_is_computed_by_element_is_known_without_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """To write loops, only to see that they can be written, took as long as TVM's fusion."""
    module = tvm.IRModule({"attention": attention()})

    def refused(*_arguments: object) -> tirx.PrimFunc:
        raise AssertionError("loops were written")

    monkeypatch.setattr(of_functions, "stagewise", refused)
    found = Functions(module, MACHINE)["attention"]
    assert found is not None and len(found.parts) == 3


def test_a_stage_is_searched_for_what_it_reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A concatenation of hundreds of steps is a stage that reads them all: each asks who reads it."""
    steps = [te.placeholder((1, 4), name=f"x{number}") for number in range(20)]
    scaled = [topi.multiply(x, x) for x in steps]
    func = te.create_prim_func([*steps, topi.concatenate(scaled, axis=0)])
    searched: list[object] = []

    def counted(value: Expr) -> list[TensorLoad]:
        searched.append(value)
        return loads(value)

    monkeypatch.setattr(reading, "loads", counted)
    found = read(func)
    for stage in found.stages:
        found.readers(stage.buffer)
    assert [len(found.readers(param)) for param in found.params] == [2] * 20 + [0]
    assert len(searched) == len(found.stages) == 21


def test_what_is_decided_for_a_function_is_for_its_first_contraction() -> None:
    inputs = [relax.Var(f"x{at}", relax.TensorType(shape, "float32")) for at, shape in enumerate(SHAPES)]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        name = builder.add_func(attention(), "attention")
        result = relax.call_tir(name, inputs, relax.TensorType((2, 5, 8), "float32"))
        builder.emit_func_output(builder.emit(result))
    network, decided = builder.finalize(), DenseChoice(1, 1, 1)
    choices = Choices(MACHINE, winograd=False, decided={"attention": decided})
    steps = [step for step in plan(network, choices).steps if isinstance(step, Generated)]
    assert [(step.function, step.choice == decided) for step in steps] == [
        ("attention", True),
        ("attention_part1", False),
        ("attention_part2", False),
    ]
    assert steps[2].choice == default_choice(steps[2].contraction, MACHINE, use_winograd=False)
    (task,) = extract_tasks(network)
    made = alone(task, choices)
    assert [parameter.shape for parameter in made.parameters] == [(2, 5, 8), (2, 7, 8), (2, 5, 7)]


def test_a_function_of_two_outputs_stands_alone_too() -> None:
    """Such as a recurrent layer's: its tuner starts from it."""
    x = te.placeholder((4, 8), name="x")
    total = te.compute((4, 8), lambda i, j: x[i, j] + x[i, j], name="sum")
    square = te.compute((4, 8), lambda i, j: x[i, j] * x[i, j], name="square")
    func = te.create_prim_func([x, total, square]).without_attr("global_symbol")
    ty = relax.TensorType((4, 8), "float32")
    builder = relax.BlockBuilder()
    given = relax.Var("given", ty)
    with builder.function("main", [given]):
        name = builder.add_func(func, "both")
        builder.emit_func_output(builder.emit(relax.call_tir(name, [given], [ty, ty])))
    (task,) = extract_tasks(builder.finalize())
    made = alone(task, Choices(MACHINE))
    assert [parameter.shape for parameter in made.parameters] == [(4, 8)] * 3


def test_calls_and_variables_of_expressions() -> None:
    x, y = (relax.Var(name, relax.TensorType((2, 5, 8), "float32")) for name in "xy")
    call = relax.call_tir(tvm.ir.GlobalVar("f"), [x, y, x], relax.TensorType((2,), "float32"))
    assert called(call) == "f"
    assert called(relax.Tuple([x, y])) is None
    assert variables(relax.Tuple([call, y])) == [x, y, x, y]
    assert variables(relax.const(1.0)) == []
