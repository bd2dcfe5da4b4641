"""Direct convolutions compute what numpy computes, whatever the choice, and stay in their buffers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.backends.packed.computed import MACHINES, computed, loaded, named
from tests.backends.packed.single import Case, Layer, spread, wrong
from tests.models.graphs import graph_of, tensor_info
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice, halo
from toolchain.backends.packed.algorithms.direct.space import pack_weight, weight_shape
from toolchain.backends.packed.algorithms.policy import legal
from toolchain.backends.packed.machine import Machine
from toolchain.models.judging.reference import reference_outputs, sample_inputs

DILATED = (
    Layer(32, 32, (9, 11), pad=4, dilation=4),
    Layer(32, 48, (9, 7), kernel=5, pad=8, dilation=4),  # rows keep all taps, columns the middle three
    Layer(64, 32, (5, 6), pad=6, dilation=6, batch=2),  # and here only the middle one is left
    Layer(3, 24, (13, 9), stride=2, pad=5, dilation=5),
)

LAYERS = (
    Layer(64, 32, (7, 7)),
    Layer(64, 40, (5, 6), kernel=1, pad=0, batch=2),
    Layer(3, 24, (19, 17), stride=2),
    Layer(64, 32, (9, 11), stride=2, groups=2),
    Layer(12, 24, (6, 7), groups=6),  # groups of fewer channels than a vector has
    Layer(9, 18, (5, 5), groups=3),  # and that no number of them fills
    Layer(40, 40, (6, 9), groups=5),  # the last block of 16 has one group
    Layer(20, 20, (8, 5), kernel=1, pad=0, groups=2),
    *DILATED,
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_choices_compute_what_numpy_does(machine: Machine) -> None:
    assert not wrong(spread(LAYERS, machine), machine)


@pytest.mark.slow
def test_sums_of_several_passes_wait_in_the_output() -> None:
    machine, layer = MACHINES[0], Layer(64, 32, (5, 7))
    choice = direct_space.default(layer.read()[1], machine)
    cases = [Case(layer, replace(choice, depth=depth), halo=1) for depth in (0, 1, 2)]
    assert not wrong(cases, machine)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_no_sum_waits_in_an_output_that_is_rounded(machine: Machine) -> None:
    """The weights are too large for one pass; int8 would cut the sums between two."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(128, 128, 3, 3)).astype("float32"),
        "scale": np.float32(1),
        "zero": np.int8(3),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["sum"], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["sum", "scale", "zero"], ["y"]),
    ]
    ends = [tensor_info("x", (1, 128, 8, 8))], [tensor_info("y", (1, 128, 8, 8), TensorProto.INT8)]
    model = loaded(graph_of(nodes, *ends, weights))
    inputs = sample_inputs(model)
    found, expected = computed(model, inputs, machine)["y"], reference_outputs(model, inputs)["y"]
    assert np.abs(found.astype(int) - expected).max() <= 1  # at a half, by the order of the sum
    assert np.mean(found != expected) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_tiles_need_not_be_equally_wide(machine: Machine) -> None:
    lanes = machine.lanes
    cases = []
    for blocks in (7, 11):
        layers = [
            Layer(2 * lanes, blocks * lanes - 3, (5, 9)),
            Layer(4 * lanes, blocks * lanes, (7, 7), kernel=1, pad=0, batch=2),
            Layer(3, blocks * lanes, (9, 13), stride=2),
        ]
        for layer in layers:
            conv = layer.read()[1]
            choice = DirectChoice(2, 4)
            assert legal(choice, conv, machine)
            cases += [Case(layer, choice, halo=1), *spread([layer], machine)]
            if layer.ci > 3:
                cases.append(Case(layer, replace(choice, depth=1)))
    assert not wrong(cases, machine)


@pytest.mark.slow
def test_passes_over_single_channels() -> None:
    layer = Layer(3, 8, (5, 9))
    assert not wrong([Case(layer, DirectChoice(2, 4, depth=1))], machines.AARCH64.of(1))


@pytest.mark.slow
def test_a_tile_of_whole_rows() -> None:
    layer = Layer(16, 32, (7, 4), stride=1)
    assert not wrong([Case(layer, DirectChoice(2, 12, flat=True), halo=1)], MACHINES[0])


def test_taps_that_meet_padding_alone_cost_no_weights_and_no_halo() -> None:
    _read, conv = Layer(32, 32, (5, 6), pad=6, dilation=6).read()
    assert (conv.kernel, conv.pads, conv.skipped) == ((1, 1), (0, 0, 0, 0), (1, 1))
    weight = np.arange(32 * 32 * 9, dtype="float32").reshape(32, 32, 3, 3)
    assert np.array_equal(conv.reached(weight), weight[:, :, 1:2, 1:2])
    _read, conv = Layer(32, 32, (9, 11), pad=4, dilation=4).read()
    assert conv.kernel == (3, 3)
    assert halo(conv, DirectChoice(2, 8)) == (0, 4, 0, 4)  # rows of taps are skipped, parts of rows not
    assert halo(conv, DirectChoice(2, 11, flat=True)) == (4, 4, 4, 4)


def test_groups_that_fill_no_last_block_are_no_dense_convolution() -> None:
    machine = MACHINES[0]
    _read, conv = Layer(440, 440, (7, 7), groups=55).read()
    assert weight_shape(conv, direct_space.default(conv, machine), machine.lanes, machine.lanes) == (
        28,
        1,
        3,
        3,
        16,
        16,
    )


def test_groups_are_packed_block_diagonally() -> None:
    _read, conv = Layer(8, 8, (5, 5), kernel=1, pad=0, groups=4).read()
    weight = np.arange(1.0, 17.0, dtype="float32").reshape(8, 2, 1, 1)
    packed = pack_weight(weight, conv, DirectChoice(1, 1), 8, 8)[0, 0, 0, 0]  # (ci, co)
    assert packed.shape == (8, 8)
    assert np.count_nonzero(packed) == weight.size
    assert packed[2, 3] == weight[3, 0, 0, 0] and packed[3, 3] == weight[3, 1, 0, 0] and packed[4, 3] == 0


@pytest.mark.slow
def test_nothing_outside_of_a_buffer_is_touched() -> None:
    command = [sys.executable, "-m", "tests.backends.packed.guarded", "convolutions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "within its buffers"
