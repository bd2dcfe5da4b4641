"""Depthwise convolutions compute what numpy computes, whatever the choice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.packed.computed import MACHINES, named
from tests.backends.packed.single import Layer, spread, wrong
from toolchain.backends.packed.algorithms.depthwise.algorithm import weight_pack_weight as pack_weight
from toolchain.backends.packed.machine import Machine

LAYERS = (
    Layer(24, 24, (12, 13), groups=24),
    Layer(32, 32, (28, 9), stride=2, groups=32, batch=2),
    Layer(17, 17, (7, 7), kernel=5, pad=2, groups=17),
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_choices_compute_what_numpy_does(machine: Machine) -> None:
    assert not wrong(spread(LAYERS, machine), machine)


def test_channels_that_do_not_exist_weigh_nothing() -> None:
    _read, conv = Layer(5, 5, (4, 4), groups=5).read()
    packed = pack_weight(np.ones((5, 1, 3, 3), "float32"), conv, 4)
    assert packed.shape == (2, 3, 3, 4)
    assert packed[0].all() and packed[1, ..., 0].all() and not packed[1, ..., 1:].any()
