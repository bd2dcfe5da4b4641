"""What is recorded of the functions that pack, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from tests.backends.packed.unbuffered import conv3x3
from toolchain.arrays import Array, transformed
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice, pack_weight, tiles_of
from toolchain.backends.packed.dot_products import PMADDWD
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import FLOATS
from toolchain.tuning.plans.operands import recorded, text

VALUE = np.arange(2 * 6 * 5 * 3, dtype=np.float32).reshape(2, 6, 5, 3)
ONE, HALF = [[Fraction(1)] * 5], [[Fraction(1, 2), Fraction(0), Fraction(-3)]] * 2
TINY = [[Fraction(1, (1 << 53) + 1)] * 3]  # two numbers that no double has
RECORDED: list[tuple[Callable[[Array], Array], str]] = [
    (lambda value: value, "-"),
    (lambda value: value.reshape(2, 30, -1).reshape(60, 3), "r60x3"),
    (lambda value: value.reshape(12, 15).reshape(2, 6, 5, 3), "r2x6x5x3"),
    (lambda value: value.transpose(0, 1, 2, 3), "-"),
    (lambda value: value.T, "t3x2x1x0"),
    (lambda value: np.moveaxis(value, 1, -1), "t0x2x3x1"),
    (lambda value: np.pad(value, ((0, 0), (0, 2), (1, 0), (0, 0))), "p0x0x0x2x1x0x0x0"),
    (lambda value: np.pad(value, [(0, 0)] * 4), "-"),
    (lambda value: np.stack([each.T[:, None] for each in value.reshape(1, 60, 3)]), "r60x3,t1x0,r1x3x1x60"),
    (lambda value: value.reshape(2, 1, 90)[:, 0, :90], "r2x90"),
    (lambda value: value[..., [0, 1, 2]].astype(np.float32, copy=False).ravel(), "r180"),
    (lambda value: transformed(value, ONE, HALF).T, f"m1x2{'x1x1' * 5}{'x1x2x0x1x-3x1' * 2},t3x2x1x0"),
    (Layout(4, (0, 1, 2, 0)).pack, "p0x0x0x2x0x0x0x0,p0x0x0x0x0x2x1x0,r2x2x4x7x4,t0x1x3x4x2"),
]
OTHERS: list[Callable[[Array], Array]] = [
    lambda value: value + 1,
    lambda value: value[:1],
    lambda value: value[..., [2, 1, 0]],
    lambda value: value.astype(np.float16),
    lambda value: np.pad(value, 1, mode="edge"),
    lambda value: np.concatenate([value, value]),
    lambda value: np.stack(list(value)),
    lambda value: np.zeros_like(value),
    lambda _value: np.ones((2, 3), np.float32),
    lambda value: transformed(value, ONE, TINY),
    lambda value: transformed(value.astype(np.int8), ONE, HALF),
    Layout(4, (1, 1, 1, 1), fill=3).pack,
]


@pytest.mark.parametrize(("pack", "steps"), RECORDED)
def test_steps_are_recorded(pack: Callable[[Array], Array], steps: str) -> None:
    found = recorded(pack, VALUE)
    assert found is not None and text(found) == steps


@pytest.mark.parametrize("pack", OTHERS)
def test_what_is_no_step(pack: Callable[[Array], Array]) -> None:
    assert recorded(pack, VALUE) is None


@pytest.mark.parametrize("kernel", [(3, 3), (5, 5), (1, 7), (7, 1), (7, 7)])
def test_winograd_is_steps(kernel: tuple[int, int]) -> None:
    """A station makes the transformed weights of every tile from those that it draws."""
    conv = replace(conv3x3(10, 20, 9), kernel=kernel)
    weight = np.random.default_rng(1).standard_normal((20, 10, *kernel)).astype(np.float32)
    for tile in tiles_of(conv):
        choice = WinogradChoice(2, 4, 1, tile)
        steps = recorded(partial(pack_weight, conv=conv, choice=choice, lanes=4, products=FLOATS[0]), weight)
        assert steps is not None and [step.kind for step in steps] == list("pmrtr"), tile


def test_integers_are_no_steps() -> None:
    """Transformed weights of 16 bits are a file: the station rounds nothing to integers."""
    weight = np.random.default_rng(1).integers(-127, 128, (20, 10, 3, 3), np.int8)
    choice = WinogradChoice(2, 4, 1, (2, 2))
    assert recorded(lambda value: pack_weight(value, conv3x3(10, 20, 9), choice, 4, PMADDWD), weight) is None
