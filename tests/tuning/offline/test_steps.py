"""What is recorded of the functions that pack, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from toolchain.arrays import Array
from toolchain.backends.packed.layout import Layout
from toolchain.tuning.offline.steps import recorded, text

VALUE = np.arange(2 * 6 * 5 * 3, dtype=np.float32).reshape(2, 6, 5, 3)
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
    Layout(4, (1, 1, 1, 1), fill=3).pack,
]


@pytest.mark.parametrize(("pack", "steps"), RECORDED)
def test_steps_are_recorded(pack: Callable[[Array], Array], steps: str) -> None:
    found = recorded(pack, VALUE)
    assert found is not None and text(found) == steps


@pytest.mark.parametrize("pack", OTHERS)
def test_what_is_no_step(pack: Callable[[Array], Array]) -> None:
    assert recorded(pack, VALUE) is None
