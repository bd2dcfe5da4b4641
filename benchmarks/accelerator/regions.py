"""A network's region on the Pynq's design, and the cycles that the model counts for a region."""

from __future__ import annotations

from functools import cache

from toolchain.backends.vta.offload import Offload
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design import SAMPLES
from toolchain.vta.layers.region import Region, RegionLayer
from toolchain.vta.machine.requests import CycleCounts as Modelled
from toolchain.vta.machine.requests import EncodedProgram, SimOptions
from toolchain.vta.machine.simulator import DEADLINE_S, Simulated, Simulator

CONFIG = SAMPLES["pynq"]
_TIME_ONLY = SimOptions(computes=False, memory=False)
_PASSES = 4  # of the ALU: bias, shift, two clips


@cache
def quantised(name: str, quantizer: str) -> Model:
    """Return a network in integers."""
    return load_model(name, ModelOptions(quantizer=quantizer))


def region_of(model: Model) -> Region:
    """Return the one region of a network."""
    (region,) = Offload(model.module).regions
    return region


def alone(each: RegionLayer) -> Region:
    """Return a region of one layer."""
    inputs = dict.fromkeys(name for name in (each.source, each.residual) if name)
    return Region([each], list(inputs), [each.result])


def modelled(simulator: Simulator, region: Region) -> Modelled:
    """Return what the cycle model says of a region's program; nothing is computed."""
    program = assemble(region, CONFIG)
    asked = EncodedProgram(CONFIG, program.code(), bytes(program.memory_bytes), 0)
    done = simulator.run(asked, _TIME_ONLY, DEADLINE_S)
    if not isinstance(done, Simulated):
        raise SystemExit(f"refused: {done.message}")
    return done.model


def milliseconds(cycles: int) -> float:
    """Return the model's milliseconds, rounded."""
    return round(CONFIG.cycles.milliseconds(cycles), 3)


def least_cycles(cut: Tiling) -> int:
    """Return the cycles of a layer's GEMM and ALU instructions: they run one after the other."""
    model, knobs = cut.config.cycles, cut.knobs
    each = model.overhead + model.pipeline
    steps = cut.chunks * cut.shape.taps * knobs.tile_ci * cut.vectors * model.gemm_step
    instructions = cut.chunks * cut.gemms + 1 + _PASSES
    piece = steps + cut.vectors * (model.gemm_step + _PASSES * model.alu_step) + instructions * each
    if cut.residual:
        piece += cut.vectors * model.gemm_step + knobs.tile_co // cut.residual_blocks * each
    return cut.oc_blocks // knobs.tile_co * (cut.shape.oh * cut.shape.ow // cut.pixels) * piece
