"""Generators that no default on a GPU is of, but that tuners measure: what their CUDA computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.backends.packed.computed import loaded
from tests.backends.packed.single import Layer
from tests.opencl.networks import layer, side_by_side
from tests.opencl.test_generators import LAYERS, WINOGRADS
from tests.testbeds.cuda.networks import emulated, error_of
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.direct.algorithm import Direct
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.winograd import algorithm
from toolchain.backends.packed.algorithms.winograd.algorithm import Winograd
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network import choices
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution

pytestmark = pytest.mark.slow


def direct(conv: Convolution, machine: Machine) -> list[Choice]:
    return [Direct().default(conv, machine)] if Direct().applies(conv, machine) else []


def winograd(conv: Convolution, machine: Machine) -> list[Choice]:
    """Return a choice of each size of tiles that fits."""
    if not Winograd().applies(conv, machine):
        return []
    return list({each.tile: each for each in algorithm.candidates(conv, machine)}.values())


@pytest.mark.parametrize(
    ("generator", "layers", "kinds"),
    [(direct, LAYERS, 1), (winograd, [each for each in WINOGRADS for _ in range(3)], 3)],
    ids=["direct", "winograd"],
)
def test_what_a_tuner_may_choose_computes_the_same(
    generator: Callable[[Convolution, Machine], list[Choice]],
    layers: Sequence[Layer],
    kinds: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: Path,
) -> None:
    assert state
    taken: list[Choice] = []

    def wanted(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        found = generator(contraction, machine) if isinstance(contraction, Convolution) else []
        if not found:
            return default_choice(contraction, machine, use_winograd)
        taken.append(found[len(taken) % len(found)])
        return taken[-1]

    monkeypatch.setattr(choices, "default_choice", wanted)
    with emulated(monkeypatch) as board:
        assert error_of(loaded(side_by_side([layer(each) for each in layers])), board, tmp_path) < 3e-6
    assert len({str(getattr(each, "tile", "")) for each in taken}) >= kinds
