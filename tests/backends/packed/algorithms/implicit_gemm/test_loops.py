"""Kernels of `implicit-gemm` on the emulated driver, which finds wrong accesses and data races."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.backends.packed.computed import loaded
from tests.backends.packed.single import Layer
from tests.opencl.networks import layer, side_by_side
from tests.testbeds.cuda.networks import emulated, error_of
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.implicit_gemm import algorithm as space
from toolchain.backends.packed.algorithms.implicit_gemm.algorithm import ImplicitGemm
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network import choices
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution

pytestmark = pytest.mark.slow

CASES = {
    # Layers are told apart by their output channels.
    24: (Layer(16, 24, (7, 7)), ImplicitGemmChoice(1, 2, (8, 4), depth=2)),
    28: (Layer(16, 28, (7, 7)), ImplicitGemmChoice(1, 7, (4, 8), slices=2, splits=2, depth=4, stages=3)),
    9: (Layer(3, 9, (22, 22), kernel=7, stride=2, pad=3), ImplicitGemmChoice(1, 4, (4, 8), depth=4)),
    10: (Layer(8, 10, (9, 7), batch=2), ImplicitGemmChoice(2, 4, (4, 8), 2, splits=3, depth=4, stages=4)),
    20: (Layer(12, 20, (5, 6), kernel=1, pad=0), ImplicitGemmChoice(1, 2, (4, 8), depth=4, stages=3)),
    12: (Layer(8, 12, (9, 11), pad=4, dilation=4), ImplicitGemmChoice(1, 2, (4, 8), 2, splits=2, depth=2)),
    36: (Layer(32, 36, (6, 5)), ImplicitGemmChoice(2, 2, (4, 2), slices=8, splits=3, depth=8)),
    40: (Layer(16, 40, (6, 7)), ImplicitGemmChoice(1, 2, (2, 2), depth=4, arithmetic="3xtf32")),
    18: (
        Layer(20, 18, (9, 9)),
        ImplicitGemmChoice(2, 1, (1, 4), 2, 3, depth=4, stages=3, arithmetic="3xtf32"),
    ),
    33: (Layer(5, 33, (4, 5), (1, 3), pad=(0, 1)), ImplicitGemmChoice(1, 8, (8, 8), depth=8, stages=4)),
}


HALVES = {
    12: (Layer(8, 12, (9, 11), 1, pad=0), ImplicitGemmChoice(1, 2, (2, 2), depth=4, arithmetic="f16")),
    18: (Layer(20, 18, (9, 9)), ImplicitGemmChoice(2, 1, (1, 4), 2, 3, depth=8, stages=3, arithmetic="f16")),
}
ROUNDED = {
    12: (Layer(8, 12, (9, 11), 1, pad=0), ImplicitGemmChoice(1, 2, (2, 2), depth=4, arithmetic="tf32")),
}


@pytest.mark.parametrize(
    ("cases", "dtype", "least", "most"),
    [(CASES, "float32", 0, 3e-6), (HALVES, "float16", 1e-5, 5e-3), (ROUNDED, "tfloat32", 1e-5, 2e-3)],
    ids=["float32", "float16", "tfloat32"],
)
def test_layers_of_every_kind(
    cases: dict[int, tuple[Layer, ImplicitGemmChoice]],
    dtype: str,
    least: float,
    most: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: Path,
) -> None:
    """Splits, slices, tiles beyond the image and beyond the channels, units that fill up the last step."""
    assert state
    taken = set()

    def wanted(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        own = cases.get(contraction.co) if not hasattr(contraction, "inner") else None
        if own is None:
            return default_choice(contraction, machine, use_winograd)
        assert space.legal(own[1], contraction, machine), own
        taken.add(own)
        return own[1]

    monkeypatch.setattr(choices, "default_choice", wanted)
    model = side_by_side([layer(of) for of, _choice in cases.values()])
    with emulated(monkeypatch) as board:
        assert least <= error_of(loaded(model), board, tmp_path, dtype) < most
    assert len(taken) == len(cases)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", ["float32", "float16", "tfloat32"])
def test_any_candidate_of_any_layer(
    dtype: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    """Ten layers, drawn with one of their candidates each."""
    assert state
    drawn = random.Random(seed)
    layers = [
        Layer(
            drawn.randint(1, 24),
            drawn.randint(1, 70),
            (drawn.randint(3, 12), drawn.randint(3, 12)),
            kernel := drawn.choice([1, 2, 3, 5]),
            stride=drawn.choice([1, 1, 2]),
            pad=drawn.randint(0, kernel // 2),
            batch=drawn.choice([1, 1, 3]),
        )
        for number in range(10)
    ]

    def wanted(contraction: Contraction, machine: Machine, use_winograd: bool) -> Choice:
        algorithm = ImplicitGemm()
        if not isinstance(contraction, Convolution) or not algorithm.applies(contraction, machine):
            return default_choice(contraction, machine, use_winograd)
        return drawn.choice(space.candidates(contraction, machine))

    monkeypatch.setattr(choices, "default_choice", wanted)
    model = side_by_side([layer(of) for of in layers if min(of.size) >= of.kernel - 2 * of.pad])
    with emulated(monkeypatch) as board:
        most = {"float32": 3e-6, "tfloat32": 3e-3, "float16": 5e-3}[dtype]
        assert error_of(loaded(model), board, tmp_path, dtype) < most
