"""Convolutions of few output channels: what they compute, and where they are the default."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
import tvm

from benchmarks.arm.loops import hot_loops
from tests.backends.packed.arm_kernels import default as compiled
from tests.backends.packed.computed import HALF_MACHINES, MACHINES, named
from tests.backends.packed.computed import wrong as network_wrong
from tests.backends.packed.contractions import TURNED_FEW, Turned
from tests.backends.packed.drawn import Network, Pointwise
from tests.backends.packed.guarded import FEW
from tests.backends.packed.single import Case, Layer, function, wrong
from tests.backends.packed.windows import Conv, Window
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.columnwise.algorithm import Columnwise
from toolchain.backends.packed.algorithms.columnwise.choice import (
    ColumnwiseChoice,
    columns_of_piece,
    pack_weight,
    taps_of,
)
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.recognise.transposed import Transposed

COLUMNWISE = Columnwise()
FIR = Layer(1, 1, (1, 44098), kernel=(1, 256), stride=2, pad=0)
WIDE = (  # for the machines with long vectors
    Layer(8, 8, (9, 33), kernel=(3, 39), pad=(1, 19)),
    Layer(1, 2, (1, 2000), kernel=(1, 9), pad=(0, 4)),
    Layer(5, 5, (6, 16), kernel=(1, 5), pad=(0, 9)),  # more padding than the window is wide
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_choices_compute_what_numpy_does(machine: Machine) -> None:
    layers = [layer for layer in (*FEW, *WIDE) if COLUMNWISE.applies(layer.read()[1], machine)]
    assert len(layers) > len(FEW)
    cases = []
    for layer in layers:
        found = COLUMNWISE.candidates(layer.read()[1], machine)
        cases += [
            Case(layer, choice) for choice in dict.fromkeys((found[0], found[len(found) // 2], found[-1]))
        ]
    assert not wrong(cases, machine)


@pytest.mark.slow
def test_nothing_outside_of_a_buffer_is_touched() -> None:
    command = [sys.executable, "-m", "tests.backends.packed.guarded", "few"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert (done.returncode, done.stdout) == (0, "within its buffers\n"), done.stderr


@pytest.mark.parametrize("machine", MACHINES, ids=named)
@pytest.mark.parametrize("layer", [FIR, Layer(32, 1, (172, 88), kernel=(7, 3), pad=(3, 1))], ids=["1", "32"])
def test_one_output_channel_is_computed_so_by_default(layer: Layer, machine: Machine) -> None:
    assert default_choice(layer.read()[1], machine, True).algorithm == "columnwise"


def test_channels_that_fill_half_of_a_long_vector_too() -> None:
    layer = Layer(8, 8, (172, 264), kernel=(3, 39), pad=(1, 19))
    assert default_choice(layer.read()[1], machines.AVX512.of(1), True).algorithm == "columnwise"
    assert default_choice(layer.read()[1], machines.AARCH64.of(1), True).algorithm != "columnwise"


def test_a_few_depthwise_channels_too() -> None:
    stereo, image = Layer(2, 2, (1, 8000), (1, 64), 1, (0, 32), groups=2), Layer(8, 8, (112, 112), groups=8)
    assert default_choice(stereo.read()[1], machines.AVX512.of(1), True).algorithm == "columnwise"
    assert default_choice(image.read()[1], machines.AVX512.of(1), True).algorithm == "depthwise"


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
@pytest.mark.parametrize("case", TURNED_FEW, ids=str)
def test_the_last_layer_of_a_generator_too(case: Turned, machine: Machine) -> None:
    conv = recognise(read(case.function()))
    assert isinstance(conv, Transposed)
    choice = default_choice(conv, machine, True)
    assert choice.algorithm == "columnwise"
    weight = np.arange(conv.ci * conv.co // conv.groups * prod(conv.kernel), dtype="f4") + 1
    shaped = weight.reshape(conv.ci, conv.co // conv.groups, *conv.kernel)
    packed = COLUMNWISE.weight(shaped, conv, choice, machine, 1)
    assert sorted(packed.ravel()) == weight.tolist()  # no zeros among them


def test_many_channels_turned_are_left_alone() -> None:
    conv = recognise(read(Turned((16, 16), 64, 32, 4, stride=2, crop=1).function()))
    assert conv is not None and default_choice(conv, machines.AVX512.of(1), True).algorithm == "interleaved"


@pytest.mark.parametrize(
    "layer",
    [
        Layer(3, 16, (32, 32)),  # a full block
        Layer(3, 8, (32, 9)),  # rows shorter than a vector
        Layer(3, 8, (32, 99), stride=2, dilation=2),
        Layer(3, 8, (32, 199), stride=9),
    ],
)
def test_other_convolutions_are_left_alone(layer: Layer) -> None:
    conv = layer.read()[1]
    assert not COLUMNWISE.applies(conv, machines.AVX512.of(1))
    assert not COLUMNWISE.applies(conv, machines.OPENCL.of(1))


def test_a_device_has_its_own_tiles() -> None:
    assert not COLUMNWISE.applies(FIR.read()[1], machines.OPENCL.of(1))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_the_weight_has_no_zeros_added(machine: Machine) -> None:
    random = np.random.default_rng(0)
    for layer in FEW:
        _found, conv = layer.read()
        weight = random.standard_normal((conv.co, conv.ci // conv.groups, *conv.kernel)).astype("f4")
        packed = pack_weight(weight, conv, COLUMNWISE.default(conv, machine))
        assert sorted(packed.ravel()) == sorted(weight.ravel())


@pytest.mark.slow
def test_what_is_infinite_reaches_only_the_windows_that_it_is_in() -> None:
    machine, layer = machines.AVX512.of(1), Layer(1, 1, (1, 400), kernel=(1, 5), stride=3, pad=0)
    choice = COLUMNWISE.default(layer.read()[1], machine)
    func, arguments, *_rest = function(Case(layer, choice), machine)
    arguments[0][0, 0, 0, 200] = np.inf
    arguments[1][...] = 1
    tensors = [tvm.runtime.tensor(argument) for argument in arguments]
    tvm.compile(tvm.IRModule({"main": func}), target="llvm")["main"](*tensors)
    found = tensors[-1].numpy()[0, 0, 0]
    assert np.flatnonzero(~np.isfinite(found)).tolist() == [66]  # 3 * 66 to 3 * 66 + 4


def test_every_thread_has_parts_of_a_long_row() -> None:
    conv = FIR.read()[1]
    for threads in (1, 2, 4):
        machine = machines.AARCH64.of(threads)
        columns = columns_of_piece(conv, COLUMNWISE.default(conv, machine), machine)
        assert 3 * threads <= -(-conv.out[-1] // columns) <= 4 * threads
        assert columns % machine.lanes == 0


def test_taps_are_sorted_by_phase() -> None:
    _found, conv = Layer(1, 1, (1, 90), kernel=(1, 7), stride=3, pad=0).read()
    taps = [(each.first, each.phases, each.each, each.start) for each in taps_of(conv)]
    assert taps == [(0, 1, 3, 0), (1, 2, 2, 3)]
    packed = pack_weight(np.arange(7, dtype="f4").reshape(1, 1, 1, 7), conv, ColumnwiseChoice())
    assert packed.ravel().tolist() == [0, 3, 6, 1, 4, 2, 5]


def test_more_of_anything_costs_more() -> None:
    machine, conv = machines.AVX512.of(1), Layer(8, 8, (64, 64)).read()[1]
    choice = COLUMNWISE.default(conv, machine)
    seconds = COLUMNWISE.cost(choice, conv, machine).seconds
    assert COLUMNWISE.cost(choice, replace(conv, batch=2), machine).seconds > seconds
    assert COLUMNWISE.cost(choice, replace(conv, ci=16), machine).seconds > seconds
    assert COLUMNWISE.cost(choice, conv, machine.of(2)).seconds < seconds


@pytest.mark.slow
@pytest.mark.parametrize("machine", HALF_MACHINES, ids=named)
def test_long_sums_of_halves(machine: Machine) -> None:
    window = Window((9,) * 3, pads=((4, 4),) * 3)
    network = Network((1, 2, 9, 70), (Conv(2, window), Pointwise("Sigmoid"), Conv(1, Window((1, 65, 1)))))
    assert not network_wrong([network], machine)


# Instructions for each vector of products, at most, of all hot loops: on the Cortex-A72, and the Cortex-A9.
LOOPS = {
    "a filter": (Layer(1, 1, (1, 4098), kernel=(1, 256), stride=2, pad=0), 2.5, 2.8),
    "three channels": (Layer(16, 3, (64, 64)), 1.5, 1.75),
}


@pytest.mark.slow
@pytest.mark.parametrize("board", ["rk3399", "pynq"])
@pytest.mark.parametrize("name", LOOPS)
def test_sums_stay_in_registers(board: str, name: str, tmp_path: Path) -> None:
    layer, *most = LOOPS[name]
    loops = hot_loops(compiled(board, layer, tmp_path))
    assert loops
    assert not any(loop.vector_spills or loop.scalar_spills or loop.calls for loop in loops)
    products = sum(loop.multiply_accumulates for loop in loops)
    assert sum(len(loop.body) for loop in loops) <= most[board == "pynq"] * products
