"""Tiles of work items on a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.depthwise import algorithm as depthwise
from toolchain.backends.packed.algorithms.direct import space as direct
from toolchain.backends.packed.algorithms.items import columns_of, fits, group_of_row
from toolchain.backends.packed.algorithms.winograd import algorithm as winograd
from toolchain.backends.packed.machines import machine_of
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target

MALI = machine_of(device_target(load_profile("rk3399"), "opencl"))


@pytest.mark.parametrize(
    ("extent", "limit", "columns"),
    [(56, 7, 7), (55, 7, 5), (111, 7, 7), (13, 7, 7), (28, 3, 3), (112, 5, 4), (2, 7, 2), (1, 1, 1)],
)
def test_tiles_leave_no_rest_unless_they_would_be_narrow(extent: int, limit: int, columns: int) -> None:
    assert columns_of(extent, limit) == columns


@pytest.mark.parametrize(
    ("items", "group"), [(28, (28, 1)), (56, (56, 1)), (128, (64, 1)), (15, ()), (97, ())]
)
def test_long_rows_are_groups_of_their_own(items: int, group: tuple[int, ...]) -> None:
    assert group_of_row(items, MALI) == group
    assert fits(group, MALI)
    assert group_of_row(items, replace(MALI, group=8)) == ()


def test_tiles_of_colours_read_as_much_of_a_row_whatever_the_kernel() -> None:
    def first(kernel: int, stride: int) -> tuple[int, tuple[int, ...]]:
        _read, conv = Layer(3, 16, (224, 224), kernel, stride, pad=kernel // 2).read()
        choice = direct.default(conv, MALI)
        return choice.columns, choice.group

    assert first(7, 2) == (4, (28, 1)) and first(3, 2) == (7, (16, 1)) and first(15, 1)[0] == 1


def test_depthwise_tiles_are_narrower_at_a_stride() -> None:
    def columns(stride: int) -> int:
        _read, conv = Layer(64, 64, (56, 56), 3, stride, groups=64).read()
        return depthwise.default(conv, MALI).columns

    assert columns(1) == 4 and columns(2) == 3


def test_winograd_takes_squares_until_weights_weigh_more() -> None:
    """On a device one point comes after the other: the inputs of one stay in its cache."""
    tiles = {}
    for channels, size in ((64, 56), (512, 7)):
        _read, conv = Layer(channels, channels, (size, size)).read()
        choice = winograd.default(conv, MALI)
        assert choice is not None
        tiles[channels] = choice.tile
    assert tiles == {64: (4, 4), 512: (2, 2)}
