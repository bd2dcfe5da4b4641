"""What the formula says of a cut, against the program and the cycle model."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.vta.generated import BASE, PYNQ, alone, layer, regions
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.estimate import channels_first, estimated_cycles, legal_knobs, traffic
from toolchain.vta.compiling.tiling import Tiling, input_loads
from toolchain.vta.design import Sram
from toolchain.vta.isa import Load, is_nop
from toolchain.vta.layers.layer import read_shape
from toolchain.vta.layers.region import Region
from toolchain.vta.machine.requests import EncodedProgram as Request
from toolchain.vta.machine.requests import SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(region=regions())
def test_traffic_counts_the_programs_loads(region: Region) -> None:
    of = region.layers[0]
    program = assemble(region, PYNQ)
    cut = Tiling(of.layer.shape, program.knobs[0], PYNQ, of.residual is not None)
    times = traffic(cut, channels_first(cut, PYNQ.cycles))
    loads = [load for load in program.instructions if isinstance(load, Load) and not is_nop(load)]
    weights = [load for load in loads if load.memory is Sram.WGT]
    assert len(weights) == times.weights + (1 if cut.residual else 0)
    inputs = [load for load in loads if load.memory is Sram.INP]
    if not cut.residual:
        shape, knobs = cut.shape, cut.knobs
        tiles = list(
            product(range(cut.chunks), range(0, shape.oh, knobs.tile_h), range(0, shape.ow, knobs.tile_w))
        )
        once = sum(len(list(input_loads(cut, *tile, sram=0, dram=0))) for tile in tiles)
        assert len(inputs) * len(tiles) == times.inputs * once


@pytest.mark.slow
@pytest.mark.parametrize("text", ["1,56,56,64,128,1,1,0,0,2,2", "1,14,14,256,512,3,3,1,1,2,2"])
def test_estimate_is_close_to_the_cycle_model(simulator: Simulator, text: str) -> None:
    shape = read_shape(text)
    legal = legal_knobs(shape, PYNQ)
    best = legal[: len(legal) // 2]
    for knobs in [*best[:3], *Random(0).sample(best, 5)]:
        program = assemble(alone(layer(shape), knobs), PYNQ)
        request = Request(PYNQ, program.code(BASE), bytes(program.memory_bytes), BASE)
        outcome = simulator.run(request, SimOptions(computes=False))
        assert isinstance(outcome, Simulated)
        assert 0.7 < estimated_cycles(Tiling(shape, knobs, PYNQ)) / outcome.model.cycles < 1.3
