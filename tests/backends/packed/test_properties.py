"""Networks of random shapes compute what onnxruntime computes.

`PROPERTY_EXAMPLES=200 pytest tests/backends/packed/test_properties.py` draws other networks each time, and
more of them: an example is eight networks, compiled as one.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.backends.packed.computed import MACHINES, named, wrong
from tests.backends.packed.drawn import Branches, Drawn, Network, Pointwise
from tests.backends.packed.strategies import ALL
from tests.backends.packed.windows import Conv, Pool, Window
from toolchain.backends.packed.machine import Machine

NETWORKS = 8  # of one example: TVM and LLVM take their time per module
EXAMPLES = os.environ.get("PROPERTY_EXAMPLES")

SAME = Window((3,) * 3, pads=((1, 1),) * 3)

FOUND: tuple[Drawn, ...] = (
    # Depthwise, of fewer channels than a block has.
    Network(
        (1, 3, 6, 7), (Conv(1, SAME, groups=0), Branches(((Conv(5, SAME),), (Conv(1, SAME, groups=0),))))
    ),
    Network((2, 3, 5, 6, 7), (Conv(1, SAME, groups=0),)),
    # Channels of a group's last block that do not exist.
    Network((1, 20, 1, 5), (Conv(2, groups=0),)),
    # Values of few channels that are added to a convolution's, from outside and its own input.
    Network((1, 5, 6, 7), (Conv(3), Pointwise("add input"), Branches(((), (Conv(3, SAME),)), add=True))),
    # A value per channel, read for lanes that are none (seen between pages that cannot be read).
    Network((2, 40, 13), (Conv(40, Window((2,) * 3)), Pointwise("gate"), Pointwise("clip"))),
    # Pads that are one more before than after; a kernel wider than the image.
    Network((2, 17, 4, 5), (Pool("MaxPool", Window((2,) * 3, (2,) * 3, pads="SAME_LOWER")),)),
    Network((3, 8, 10, 1), (Pool("AveragePool", Window((3,) * 3, (2,) * 3, pads="SAME_LOWER")),)),
)
"""What random networks have found, made small."""


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
@settings(
    max_examples=int(EXAMPLES or 4),
    derandomize=EXAMPLES is None,
    database=None,
    phases=[Phase.generate],  # the message names the wrong ones of the eight; to shrink takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(ALL, min_size=NETWORKS, max_size=NETWORKS, unique=True), st.booleans())
def test_random_networks_compute_what_onnxruntime_does(
    machine: Machine, networks: list[Drawn], winograd: bool
) -> None:
    assert not wrong(networks, machine, winograd)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_what_was_found_stays_right(machine: Machine) -> None:
    assert not wrong(FOUND, machine)
