"""Tiles fit the registers and the shapes, and give every thread work."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends.packed.computed import MACHINES
from tests.backends.packed.unbuffered import FLOATS, NO_BUFFER
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.depthwise import algorithm as depthwise_space
from toolchain.backends.packed.algorithms.depthwise.algorithm import DepthwiseChoice
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.direct.space import merged, widest
from toolchain.backends.packed.algorithms.policy import legal
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution

AVX512, AVX2, A64, ARMV7 = MACHINES


def conv(ci: int, co: int, *out: int, kernel: int = 3, groups: int = 1, batch: int = 1) -> Convolution:
    """Return a convolution of stride 1 over axes that keep their size."""
    one = (1,) * len(out)
    taps, pads = (kernel,) * len(out), (kernel // 2,) * 2 * len(out)
    buffers = FLOATS, NO_BUFFER, NO_BUFFER
    return Convolution(batch, ci, co, groups, out, taps, out, one, one, *buffers, pads)


CONVS = st.builds(
    lambda ci, co, out, kernel, groups, batch: conv(
        ci * groups, co * groups, *out, kernel=kernel, groups=groups, batch=batch
    ),
    st.integers(1, 70),
    st.integers(1, 70),
    st.lists(st.integers(1, 60), min_size=1, max_size=3),
    st.sampled_from([1, 3, 5]),
    st.sampled_from([1, 1, 2, 3, 8]),
    st.integers(1, 3),
)


@given(CONVS, st.sampled_from(MACHINES))
def test_the_default_comes_first_and_every_candidate_is_legal(
    contraction: Convolution, machine: Machine
) -> None:
    space = depthwise_space if contraction.depthwise else direct_space
    default = space.default(contraction, machine)
    found = space.candidates(contraction, machine)
    assert found[0] == default
    assert len(set(found)) == len(found)
    for choice in found:
        assert legal(choice, contraction, machine)
        blocks, columns = choice.knobs["blocks"], choice.knobs["columns"]
        assert blocks * columns + blocks + 1 <= machine.registers


@given(CONVS, st.sampled_from(MACHINES))
def test_groups_computed_together_are_all_groups_or_fill_vectors(
    contraction: Convolution, machine: Machine
) -> None:
    lanes = machine.lanes
    groups, ci, co = merged(contraction, lanes)
    assert groups == 1 or ci % lanes == co % lanes == 0
    if ci == co == lanes:  # the last block may go beyond the channels
        assert groups == -(-contraction.ci // lanes) == -(-contraction.co // lanes)
    else:
        assert (groups * ci, groups * co) == (contraction.ci, contraction.co)


@pytest.mark.parametrize(
    "choice",
    [
        DirectChoice(3, 4),  # does not divide four blocks
        DirectChoice(2, 15),  # spills
        DirectChoice(2, 0),
        DirectChoice(0, 7),
        DirectChoice(2, 14, rows=5),
        DirectChoice(2, 13, flat=True),  # half a row
        DirectChoice(2, 14, depth=3),
        DirectChoice(2, 14, depth=4),  # one pass is none
        DirectChoice(2, 14, depth=-1),
        DepthwiseChoice(7),
        DenseChoice(2, 14),
    ],
)
def test_a_choice_that_is_wrong_for_a_layer_is_not_legal(choice: Choice) -> None:
    assert not legal(choice, conv(64, 64, 14, 14), AVX512)


def test_tiles_that_were_measured_to_be_the_best() -> None:
    layer = conv(64, 64, 56, 56)
    found = [direct_space.default(layer, machine) for machine in MACHINES]
    assert [(choice.blocks, choice.columns) for choice in found] == [
        (2, 14),
        (2, 6),
        (2, 9),
        (2, 4),
    ]
    odd = conv(64, 144, 56, 56)
    assert (direct_space.default(odd, AVX512).blocks, direct_space.default(odd, AVX512).columns) == (3, 9)
    assert widest(AVX2, 3) == 4


def test_large_weights_go_by_passes_that_fit_the_first_cache_where_code_fetches_them() -> None:
    for machine in MACHINES:
        choice = direct_space.default(conv(512, 512, 7, 7), machine)
        assert bool(choice.depth) == machine.prefetches == (machine != A64)
        assert choice.depth * 9 * machine.lanes**2 * choice.blocks * 4 <= 18 << 10
        assert direct_space.default(conv(16, 16, 7, 7), machine).depth == 0


def test_rows_without_taps_are_cut_anywhere_where_divisions_are_cheap() -> None:
    choice = direct_space.default(conv(512, 512, 14, 14, kernel=1), A64)
    assert (choice.columns, choice.flat) == (10, True)
    for machine in (AVX512, ARMV7):
        assert not direct_space.default(conv(512, 512, 14, 14, kernel=1), machine).flat
    assert direct_space.default(conv(512, 512, 14, 14, kernel=1), machines.AARCH64_IN_ORDER).columns == 9


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_thread_gets_several_pieces(threads: int) -> None:
    machine = replace(AVX512, threads=threads)
    for layer in (
        conv(64, 64, 56, 56),
        conv(256, 256, 14, 14),
        conv(3, 32, 112, 112),
        conv(256, 256, 28, 28),
    ):
        choice = direct_space.default(layer, machine)
        pieces = prod(layer.out[:-1]) // choice.rows * (layer.co // 16 // choice.blocks)
        assert pieces >= 4 * threads


def test_blocks_that_nothing_divides_get_tiles_of_several_where_that_saves_loads() -> None:
    primes = conv(672, 112, 14, 14, kernel=1), conv(84, 28, 14, 14, kernel=1)
    assert direct_space.default(primes[0], AVX512).blocks == 2
    assert direct_space.default(primes[1], A64).blocks == 2
    assert direct_space.default(primes[1], ARMV7).blocks == 1  # three blocks would leave two columns
    assert {each.blocks for each in direct_space.candidates(primes[0], AVX512)} >= {1, 2, 3, 4}


def test_rows_of_seven_get_tiles_whose_products_do_not_wait_on_avx2() -> None:
    even, uneven = conv(192, 1152, 7, 7, kernel=1), conv(1152, 320, 7, 7, kernel=1)
    for layer in (even, uneven):
        choice = direct_space.default(layer, AVX2)
        assert (choice.blocks, choice.columns) == (
            3,
            4,
        )  # tiles of 12 and 9 sums; 2 blocks would have 8 and 6
        assert direct_space.default(layer, AVX512).blocks == 2
        assert legal(choice, layer, AVX2)
