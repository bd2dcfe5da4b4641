"""An instruction that multiplies bytes is a row and a class: tiles, estimates and plans ask the row."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.backends.packed.dot import DOT
from tests.backends.packed.emulated import Called, run
from tests.lowering.executable import virtual_machine
from toolchain.arrays import Array
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.policy import candidates, cost, legal
from toolchain.backends.packed.dot_products import SDOT
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import FLOATS, Machine
from toolchain.backends.packed.network.alone import alone
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.plan import plan
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.backends.packed.network.steps import Generated, Plan
from toolchain.lowering.functions.tasks import extract_tasks
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.kernels.listing import list_code
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

TARGET = target_for(load_profile("x86_64")).target
PLAIN = machines.AVX2.without_integers().of(2)
WITH_DOT = replace(PLAIN, products=(*FLOATS, DOT))


def weight(outputs: int, inputs: int, dtype: str = "int8") -> Array:
    return np.random.default_rng(outputs).integers(-128, 128, (outputs, inputs, 3, 3)).astype(dtype)


def network(*channels: int, dtype: str = "int8") -> tvm.IRModule:
    """Return convolutions, one behind the other, of numbers that wrap around: all of one integer type."""
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType((1, channels[0], 6, 6), dtype))
    with builder.function("main", [value]):
        with builder.dataflow():
            for inputs, outputs in pairwise(channels):
                constant = relax.const(weight(outputs, inputs, dtype))
                value = builder.emit(relax.op.nn.conv2d(value, constant, out_dtype=dtype))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return fuse(builder.get(), TARGET)


def planned(machine: Machine, *channels: int, dtype: str = "int8") -> tuple[Plan, list[Generated]]:
    found = plan(network(*channels, dtype=dtype), Choices(machine))
    return found, [step for step in found.steps if isinstance(step, Generated)]


def expected(x: Array, *channels: int) -> Array:
    """Return what a network comes to."""
    for inputs, outputs in pairwise(channels):
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).astype("i4")
        x = np.einsum("nchwij,ocij->nohw", windows, weight(outputs, inputs).astype("i4")).astype("int8")
    return x


@pytest.mark.slow
def test_a_network_of_bytes_is_computed_by_it() -> None:
    channels = (3, 16, 8)
    fused = network(*channels)
    made = rewrite(fused, Choices(WITH_DOT))
    machine = virtual_machine(made.module, TARGET)
    x = np.random.default_rng(0).integers(-128, 128, (1, channels[0], 6, 6)).astype("int8")
    assert np.array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), expected(x, *channels))
    functions = [str(function) for name, function in made.module.functions.items() if "conv" in str(name)]
    assert len(functions) == len(channels) - 1
    assert all('"int32"' in each for each in functions), "the sums' type"


def test_values_stay_packed_where_a_row_multiplies_them() -> None:
    found, steps = planned(WITH_DOT, 16, 24, 8)
    assert [type(step.choice) for step in steps] == [DirectChoice, DirectChoice]
    assert found.layout(steps[0].var) == Layout(lanes=8, halo=(0, 0, 0, 0))
    assert {step.var for step in steps} == found.packed
    plain, steps = planned(PLAIN, 16, 24, 8)
    assert not plain.packed and all(step.subject is None for step in steps)


def test_few_channels_are_read_four_at_a_time_by_an_instruction_that_takes_four() -> None:
    for channels, block in ((3, 4), (4, 4), (5, 8), (8, 8)):
        found, (first, *_others) = planned(WITH_DOT, channels, 16, 16)
        assert found.layout(first.arguments[0]).lanes == block
    floats, (first, *_others) = planned(WITH_DOT, 3, 16, 16, dtype="float32")
    assert floats.layout(first.arguments[0]).lanes == 1


def test_factors_that_it_does_not_take_are_left_to_the_general_rule() -> None:
    mixed = replace(WITH_DOT, products=(*FLOATS, replace(DOT, inputs="uint8")))
    for machine, dtype in ((mixed, "uint8"), (mixed, "int8"), (WITH_DOT, "uint8")):
        found, steps = planned(machine, 16, 24, 8, dtype=dtype)
        assert not found.packed and all(step.subject is None for step in steps)


def test_only_algorithms_that_give_it_several_products_at_once_use_it() -> None:
    _found, (step, *_others) = planned(WITH_DOT, 64, 64, 64)
    contraction = step.contraction
    assert contraction is not None
    assert {choice.algorithm for choice in candidates(contraction, WITH_DOT)} == {"direct"}
    wide = replace(WITH_DOT, products=(*FLOATS, replace(DOT, depth=1)))
    assert {choice.algorithm for choice in candidates(contraction, wide)} == {"direct"}


def test_sums_do_not_wait_in_an_output_of_bytes() -> None:
    def default(dtype: str) -> DirectChoice:
        _found, (step, *_others) = planned(WITH_DOT, 512, 512, dtype=dtype)
        assert step.contraction is not None
        choice = direct_space.default(step.contraction, WITH_DOT)
        assert legal(choice, step.contraction, WITH_DOT)
        assert legal(replace(choice, depth=2), step.contraction, WITH_DOT) == (dtype == "float32")
        return choice

    assert default("float32").depth > 0
    assert default("int8").depth == 0


def test_estimates_go_by_its_rate_and_its_bytes() -> None:
    def of(machine: Machine, dtype: str) -> tuple[float, int]:
        _found, (step, *_others) = planned(machine, 64, 64, 64, dtype=dtype)
        assert step.contraction is not None
        choice = direct_space.default(step.contraction, machine)
        found = cost(replace(choice, depth=0), step.contraction, machine)
        assert found is not None
        return found.seconds, found.weights

    fast = replace(WITH_DOT, rates=replace(WITH_DOT.rates, stream=1e15))  # what is left is computing
    floats, bytes_ = of(fast, "float32"), of(fast, "int8")
    assert floats[1] == 4 * bytes_[1]
    assert floats[0] / bytes_[0] == pytest.approx(4, rel=1e-3)


def test_a_machine_that_computes_in_bytes_counts_its_registers_by_their_sums() -> None:
    machine = replace(machines.OPENCL, products=(*FLOATS, DOT), registers=32)
    assert (machine.of(1).lanes, machine.of(1, "int8").lanes, machine.of(1, "float16").lanes) == (4, 4, 8)
    assert machine.of(1).columns(1) == 27, "31 registers less the weights of 4 inputs"
    assert machine.of(1, "int8").columns(1) == 30, "the same weights in one register"


@pytest.mark.parametrize(("board", "there"), [("raspberrypi5", True), ("raspberrypi4", False)])
def test_the_cpu_decides_whether_a_machine_has_it(board: str, there: bool) -> None:
    machine = machines.machine_of(target_for(load_profile(board)), integers=True)
    assert (SDOT in machine.products) == there
    assert machine.products_of("float32").depth == 1
    assert machine.products_of("int8").depth == 4, "the other one multiplies pairs"


@pytest.mark.slow
def test_arms_own_is_used_where_the_cpu_has_it(tmp_path: Path) -> None:
    board, channels = load_profile("raspberrypi5"), (16, 8)
    target = target_for(board)
    (task,) = extract_tasks(network(*channels))
    made = alone(task, Choices(machines.machine_of(target, integers=True)))
    x = np.random.default_rng(0).integers(-128, 128, (1, 16, 6, 6)).astype("int8")
    numbers = iter([x, np.zeros((1, 8, 4, 4), "int8")])
    arguments = []
    for each in made.parameters:
        value = next(numbers) if each.value is None else each.value
        arguments.append(value if each.value is not None or each.layout is None else each.layout.pack(value))
    assert list_code(made.func, target.target, "assembly").count("sdot") > 4
    ((output, *_again),) = run([Called("sdot", made.func, arguments)], board, tmp_path)
    layout = made.parameters[-1].layout
    assert layout is not None
    assert np.array_equal(layout.unpack(output, (1, 8, 4, 4)), expected(x, *channels))
