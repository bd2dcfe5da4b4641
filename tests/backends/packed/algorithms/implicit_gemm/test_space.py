"""The choices of `implicit-gemm`: which are legal, and which the estimate prefers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.implicit_gemm import algorithm as space
from toolchain.backends.packed.algorithms.implicit_gemm.algorithm import ImplicitGemm
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice, steps_of
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX2, machine_of
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target

pytestmark = pytest.mark.slow

CHOICE = ImplicitGemmChoice(2, 4, (8, 4), slices=2, splits=3, depth=8, stages=3)
LAYERS = (
    Layer(3, 64, (224, 224), 7, 2, 3),
    Layer(64, 64, (56, 56)),
    Layer(64, 128, (56, 56), 1, 2, 0),
    Layer(512, 512, (7, 7)),
    Layer(512, 2048, (7, 7), 1, 1, 0),
    Layer(5, 6, (9, 4)),
)


def gpu(arch: str) -> Machine:
    return machine_of(device_target(load_profile("cuda"), "cuda", "", arch=arch))


@pytest.mark.parametrize("layer", LAYERS)
def test_the_default_is_legal_and_fills_the_gpu(layer: Layer) -> None:
    conv, machine = layer.read()[1], gpu("sm_90")
    found = space.candidates(conv, machine)
    assert found[0] == space.default(conv, machine) == default_choice(conv, machine, use_winograd=True)
    assert all(space.legal(choice, conv, machine) for choice in found) and len(set(found)) == len(found)
    groups = groups_of(found[0], layer)
    assert groups * found[0].items >= min(2 * 132 * 32, layer.co * conv.out[0] * conv.out[1] // 64)


def groups_of(choice: ImplicitGemmChoice, layer: Layer) -> int:
    out = layer.read()[1].out
    return -(-layer.co // choice.channels(4)) * -(-out[0] * out[1] // choice.places) * choice.splits


def test_a_gpu_of_few_units_shares_fewer_tiles() -> None:
    """An Orin has 16 units, an H100 132: sums of a small image are divided among more groups there."""
    conv = LAYERS[3].read()[1]
    few, many = (space.default(conv, gpu(arch)) for arch in ("sm_87", "sm_90"))
    assert few is not None and many is not None
    assert groups_of(few, LAYERS[3]) < groups_of(many, LAYERS[3])


@pytest.mark.parametrize(
    "changed",
    [
        {"slices": 3},  # 8 units of a step are not divided by 3
        {"stages": 1},
        {"tile": (8, 3)},  # no whole warp
        {"tile": (32, 32)},  # too many items
        {"blocks": 8, "columns": 8},  # too many sums for the registers
        {"depth": 64},  # more than the shared memory
        {"splits": 40},  # the last groups would have no unit
        {"splits": 0},
        {"group": (8, 8)},
        {"loads": "weights"},
    ],
)
def test_what_does_not_fit_is_illegal(changed: dict[str, object]) -> None:
    conv, machine = Layer(64, 64, (14, 14)).read()[1], gpu("sm_80")
    assert space.legal(CHOICE, conv, machine)
    assert not space.legal(replace(CHOICE, **changed), conv, machine)


def test_it_is_for_float32_convolutions_without_groups_on_gpus() -> None:
    algorithm, plain = ImplicitGemm(), Layer(16, 16, (8, 8)).read()[1]
    assert algorithm.applies(plain, gpu("sm_80"))
    assert not algorithm.applies(plain, AVX2)
    assert not algorithm.applies(Layer(16, 16, (8, 8), groups=2).read()[1], gpu("sm_80"))


def test_a_record_keeps_a_choice() -> None:
    assert choice_from(CHOICE.to_json()) == CHOICE


@pytest.mark.parametrize("layer", LAYERS)
def test_steps_cover_each_unit_once(layer: Layer) -> None:
    conv = layer.read()[1]
    for choice in space.candidates(conv, gpu("sm_90"))[::20]:
        steps = steps_of(conv, choice, 4)
        assert steps.units <= steps.padded == steps.each * choice.depth * choice.splits
        assert steps.padded - steps.units < choice.depth * choice.splits
