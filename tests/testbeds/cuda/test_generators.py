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
    return list({choice.tile: choice for choice in algorithm.candidates(conv, machine)}.values())


@pytest.mark.parametrize(
    ("generator", "layers", "kinds"),
    [(direct, LAYERS, 1), (winograd, [item for item in WINOGRADS for _ in range(3)], 3)],
    ids=["direct", "winograd"],
)
def test_all_candidates_compute_the_same(
    generator: Callable[[Convolution, Machine], list[Choice]],
    layers: Sequence[Layer],
    kinds: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: Path,
) -> None:
    assert state
    chosen: list[Choice] = []

    def candidates_of(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        candidates = generator(contraction, machine) if isinstance(contraction, Convolution) else []
        if not candidates:
            return default_choice(contraction, machine, use_winograd)
        chosen.append(candidates[len(chosen) % len(candidates)])
        return chosen[-1]

    monkeypatch.setattr(choices, "default_choice", candidates_of)
    with emulated(monkeypatch) as board:
        assert error_of(loaded(side_by_side([layer(item) for item in layers])), board, tmp_path) < 3e-6
    assert len({str(getattr(item, "tile", "")) for item in chosen}) >= kinds
