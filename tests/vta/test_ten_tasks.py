"""ResNet-18's ten convolutions, as the tutorial names them."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from tests.vta.generated import BASE, PYNQ, alone, lint, run
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.estimate import default_knobs, legal_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.layers.layer import ConvLayer, ConvShape, read_shape
from toolchain.vta.layers.region import Knobs, seeded_layer
from toolchain.vta.machine.requests import EncodedProgram as Request
from toolchain.vta.machine.requests import SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator

TASKS = {
    "1,56,56,64,64,3,3,1,1,1,1": 4,
    "1,56,56,64,128,1,1,0,0,2,2": 1,
    "1,56,56,64,128,3,3,1,1,2,2": 1,
    "1,28,28,128,128,3,3,1,1,1,1": 3,
    "1,28,28,128,256,1,1,0,0,2,2": 1,
    "1,28,28,128,256,3,3,1,1,2,2": 1,
    "1,14,14,256,256,3,3,1,1,1,1": 3,
    "1,14,14,256,512,1,1,0,0,2,2": 1,
    "1,14,14,256,512,3,3,1,1,2,2": 1,
    "1,7,7,512,512,3,3,1,1,1,1": 3,
}
BOUND_MS = 75.7  # GEMM and ALU steps alone, at 100 MHz
_MOST_GEMMS = 40_000  # of a cut in these tests: single pixels take minutes, and prove no more


@cache
def seeded(text: str) -> ConvLayer:
    return seeded_layer(read_shape(text), 0)


def drawn(shape: ConvShape, count: int) -> list[Knobs]:
    random = Random(str(shape))
    legal = [knobs for knobs in legal_knobs(shape, PYNQ) if gemms(shape, knobs) <= _MOST_GEMMS]
    return random.sample(legal, count)


def gemms(shape: ConvShape, knobs: Knobs) -> int:
    cut = Tiling(shape, knobs, PYNQ)
    pieces = cut.oc_blocks // knobs.tile_co * (shape.oh * shape.ow // cut.pixels)
    return pieces * cut.chunks * cut.gemms


def milliseconds(simulator: Simulator, text: str) -> float:
    program = assemble(alone(seeded(text)), PYNQ)
    request = Request(PYNQ, program.code(BASE), bytes(program.memory_bytes), BASE)
    outcome = simulator.run(request, SimOptions(computes=False))
    assert isinstance(outcome, Simulated), outcome
    return outcome.milliseconds


def test_the_tasks_are_those_of_resnet_18() -> None:
    assert sum(TASKS.values()) == 19
    macs = sum(count * read_shape(text).macs for text, count in TASKS.items())
    assert macs / 1e9 == pytest.approx(1.696, abs=0.001)


@pytest.mark.slow
def test_without_a_record_the_model_is_near_the_bound(simulator: Simulator) -> None:
    total = sum(count * milliseconds(simulator, text) for text, count in TASKS.items())
    assert total < 1.05 * BOUND_MS


@pytest.mark.slow
@pytest.mark.parametrize("text", TASKS)
def test_ten_tasks_with_some_knobs(simulator: Simulator, text: str) -> None:
    for number, knobs in enumerate([None, *drawn(read_shape(text), 3)]):
        ran = run(simulator, alone(seeded(text), knobs))
        assert number or not lint(ran.program)


@pytest.mark.full
@pytest.mark.parametrize("text", TASKS)
def test_ten_tasks_with_many_knobs(simulator: Simulator, text: str) -> None:
    for knobs in drawn(read_shape(text), 24):
        run(simulator, alone(seeded(text), knobs))


@pytest.mark.slow
@pytest.mark.parametrize("text", TASKS)
def test_search_spaces_of_the_ten_tasks_vary(text: str) -> None:
    legal = legal_knobs(read_shape(text), PYNQ)
    assert len(set(legal)) == len(legal) > 100
    assert legal[0] == default_knobs(read_shape(text), PYNQ)
