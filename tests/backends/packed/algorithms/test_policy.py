"""Which algorithm a convolution gets, and what a tuner may try."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.packed.unbuffered import conv3x3
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.policy import (
    candidates,
    cost,
    default_choice,
    legal,
)
from toolchain.backends.packed.algorithms.winograd.algorithm import error
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.recognise.convolution import Convolution

AVX512 = machines.AVX512.of(1)
AVX2 = machines.AVX2.of(2)
AARCH64 = machines.AARCH64.of(2)
ARMV7 = machines.ARMV7.of(2)
MACHINES = [AVX512, AVX2, AARCH64, ARMV7, machines.SSE.of(4)]
LAYERS = [conv3x3(64, 64, 56), conv3x3(128, 128, 28), conv3x3(256, 256, 14), conv3x3(48, 40, 17, batch=3)]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("conv", LAYERS)
def test_winograd_is_chosen_where_images_are_large_enough(conv: Convolution, machine: Machine) -> None:
    choice = default_choice(conv, machine, True)
    assert choice is not None
    assert choice.algorithm == "winograd"
    assert legal(choice, conv, machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("conv", LAYERS)
def test_winograd_off_is_never_winograd(conv: Convolution, machine: Machine) -> None:
    choice = default_choice(conv, machine, False)
    assert choice is not None
    assert choice.algorithm == "direct"


@pytest.mark.parametrize(
    "changed",
    [
        {"stride": (2, 2)},
        {"dilation": (2, 2)},
        {"kernel": (1, 1)},
        {"kernel": (9, 9)},
        {"groups": 2},
        {"ci": 3},
        {"size": (56,), "out": (56,), "kernel": (3,), "stride": (1,), "dilation": (1,), "pads": (1, 1)},
    ],
)
def test_other_convolutions_are_not_winograds(changed: dict[str, object]) -> None:
    conv = replace(conv3x3(64, 64, 56), **changed)
    choice = default_choice(conv, AVX512, True)
    assert choice is not None
    assert choice.algorithm == "direct"
    assert all(each.algorithm != "winograd" for each in candidates(conv, AVX512))


def test_a_7x7_layer_of_512_channels_is_not_given_the_largest_weights() -> None:
    for machine in (AVX512, AVX2, AARCH64, ARMV7):
        conv = conv3x3(512, 512, 7)
        choice, direct = default_choice(conv, machine, True), default_choice(conv, machine, False)
        assert choice is not None and direct is not None
        assert cost(choice, conv, machine).weights <= 2 * cost(direct, conv, machine).weights


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("conv", [*LAYERS, conv3x3(512, 512, 7)])
def test_candidates_begin_with_the_default_and_are_legal_and_different(
    conv: Convolution, machine: Machine
) -> None:
    found = candidates(conv, machine)
    assert found[0] == default_choice(conv, machine, True)
    assert len(set(found)) == len(found)
    assert all(legal(choice, conv, machine) for choice in found)
    assert {choice.algorithm for choice in found} == {"direct", "winograd"}
    assert all(error(conv, choice.tile) <= 1e-5 for choice in found if isinstance(choice, WinogradChoice))


def test_errors_grow_with_the_channels() -> None:
    few, many = conv3x3(64, 64, 56), conv3x3(512, 64, 56)
    assert error(few, (1, 4)) < error(few, (4, 4)) < error(many, (4, 4)) < error(many, (6, 6))


def test_winograd_is_left_out_where_none_is_wanted() -> None:
    conv, fast = LAYERS[0], WinogradChoice(2, 8, 1, (4, 4))
    assert Choices(AVX512, True, {"conv": fast}).of("conv", conv) == fast
    direct = Choices(AVX512, False, {"conv": fast}).of("conv", conv)
    assert direct == default_choice(conv, AVX512, False) != fast


def test_the_general_rule_can_be_decided_for() -> None:
    assert Choices(AVX512, True, {"conv": GENERAL}).of("conv", LAYERS[0]) == GENERAL
