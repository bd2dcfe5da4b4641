"""Tiles of depthwise convolutions on GPUs."""

from __future__ import annotations

import pytest

from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.depthwise import algorithm
from toolchain.backends.packed.algorithms.depthwise.algorithm import DepthwiseChoice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import OPENCL, machine_of
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target


def gpu(arch: str) -> Machine:
    return machine_of(device_target(load_profile("cuda"), "cuda", "", arch=arch))


@pytest.mark.parametrize(("channels", "size"), [(32, 112), (256, 28), (512, 14), (1024, 7), (960, 5)])
def test_a_row_is_one_launch_whose_groups_reach_most_units(channels: int, size: int) -> None:
    conv = Layer(channels, channels, (size, size), groups=channels).read()[1]
    found = algorithm.default(conv, gpu("sm_90"))
    assert algorithm.legal(found, conv, gpu("sm_90"))
    assert size % found.columns == 0
    assert channels // 4 * size * size // found.columns >= 64 * 132 * 0.7


def test_a_gpu_of_few_units_has_wider_tiles() -> None:
    conv = Layer(512, 512, (14, 14), groups=512).read()[1]
    assert algorithm.default(conv, gpu("sm_87")).columns > algorithm.default(conv, gpu("sm_90")).columns


def test_a_rest_of_a_row_is_estimated_as_a_launch() -> None:
    conv, machine = Layer(1024, 1024, (7, 7), groups=1024).read()[1], gpu("sm_90")
    assert machine.gpu is not None
    whole, cut = (
        algorithm.seconds_on_gpu(DepthwiseChoice(columns=columns), conv, machine, machine.gpu)
        for columns in (7, 4)
    )
    assert cut > whole + machine.gpu.launch / 2


def test_other_devices_keep_their_tiles() -> None:
    conv = Layer(512, 512, (14, 14), groups=512).read()[1]
    assert algorithm.default(conv, OPENCL) == DepthwiseChoice(columns=4)
