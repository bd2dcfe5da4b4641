"""Estimates order what they are there to order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.backends.packed.unbuffered import conv3x3
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.algorithm import Cost
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.direct import space as direct_weight
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.policy import cost
from toolchain.backends.packed.algorithms.winograd import algorithm as winograd_space
from toolchain.backends.packed.algorithms.winograd import transforms as winograd_weight
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.machine import FLOATS

AVX512 = machines.AVX512.of(1)
CONV = conv3x3(64, 64, 56)


def test_bytes_are_those_of_the_packed_weight() -> None:
    weight = np.zeros((40, 24, 3, 3), "f4")
    conv = conv3x3(24, 40, 14)
    packed = direct_weight.pack_weight(weight, conv, DirectChoice(1, 7), 16, 16)
    assert cost(DirectChoice(1, 7), conv, AVX512).weights == packed.nbytes
    for blocks, tile in ((1, (4, 4)), (3, (2, 2)), (1, (1, 2))):
        choice = WinogradChoice(blocks, 4, tile=tile)
        packed = winograd_weight.pack_weight(weight, conv, choice, 16, FLOATS[0])
        assert cost(choice, conv, AVX512).weights == packed.nbytes


def test_more_of_anything_costs_more() -> None:
    for choice in (direct_space.default(CONV, AVX512), winograd_space.default(CONV, AVX512)):
        assert choice is not None
        seconds = cost(choice, CONV, AVX512).seconds
        assert cost(choice, replace(CONV, batch=2), AVX512).seconds > seconds
        assert cost(choice, replace(CONV, ci=128), AVX512).seconds > seconds
        assert cost(choice, CONV, replace(AVX512, threads=2)).seconds < seconds


def test_pieces_that_leave_a_core_idle_cost_more() -> None:
    two = replace(AVX512, threads=2)
    whole, halves = (cost(WinogradChoice(2, 14, rows, (4, 4)), CONV, two).seconds for rows in (14, 7))
    assert whole > 1.5 * halves


def test_time_wins_and_bytes_win_ties() -> None:
    assert Cost(1.0, 100).beats(Cost(1.2, 10))
    assert not Cost(1.2, 10).beats(Cost(1.0, 100))
    assert Cost(1.03, 10).beats(Cost(1.0, 100))
    assert not Cost(1.0, 100).beats(Cost(1.03, 10))
    assert not Cost(1.0, 10).beats(Cost(1.0, 10))
