"""A module with programs computes what the module computed, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.backends.vta.quantised import RESIDUAL, expected, loaded
from tests.lowering.executable import executable
from tests.models.quantising.networks import Block
from toolchain.backends.vta.offload import RUN, Offload
from toolchain.lowering.graph.pipeline import fuse
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import Program, blob_of
from toolchain.vta.design import SAMPLES
from toolchain.vta.dumps.dump import PHYSICAL_BASE
from toolchain.vta.machine.requests import EncodedProgram as Asked
from toolchain.vta.machine.requests import SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator

pytestmark = pytest.mark.slow

CONFIG = SAMPLES["pynq"]


@contextmanager
def simulated(programs: dict[bytes, Program]) -> Iterator[list[int]]:
    """Stand in for edge-rt's function, by the strict simulator; yield the cycles of each call."""
    cycles: list[int] = []
    with Simulator() as simulator:

        def run(*arguments: tvm.runtime.Tensor) -> None:
            place = next(i for i, each in enumerate(arguments) if each.dtype == "uint8")
            program = programs[arguments[place].numpy().tobytes()]
            memory = program.memory(PHYSICAL_BASE)
            for name, value in zip(program.inputs, arguments[:place], strict=True):
                at = program.values[name]
                memory[at.offset : at.offset + at.bytes] = value.numpy().tobytes()
            asked = Asked(CONFIG, program.code(PHYSICAL_BASE), bytes(memory), PHYSICAL_BASE)
            done = simulator.run(asked, SimOptions(strict=True))
            assert isinstance(done, Simulated), done
            cycles.append(done.model.cycles)
            for name, value in zip(program.outputs, arguments[place + 1 :], strict=True):
                at = program.values[name]
                found = np.frombuffer(done.memory[at.offset : at.offset + at.bytes], np.int8)
                value.copyfrom(found.reshape(value.shape))

        tvm_ffi.register_global_func(RUN, run, override=True)
        try:
            yield cycles
        finally:
            tvm_ffi.remove_global_func(RUN)


@pytest.mark.parametrize(
    "blocks",
    [
        RESIDUAL,
        (Block(7, kernel=1, activation=""), Block(3, kernel=5, activation="Clip")),
        (Block(16, shortcut="identity", activation="Clip", scale=0.3), Block(33, stride=2)),
        (Block(8, pool=True), Block(8, shortcut="identity")),
    ],
    ids=["residual", "small", "blocks", "two regions"],
)
def test_it_computes_what_the_module_did(tmp_path: Path, blocks: tuple[Block, ...]) -> None:
    model = loaded(tmp_path, blocks)
    offload = Offload(model.module, start="relu")
    programs = [assemble(region, CONFIG) for region in offload.regions]
    blobs = [blob_of(program) for program in programs]
    target = tvm.target.Target("llvm")
    made = executable(fuse(offload.with_programs(blobs, CONFIG.block), target), target)
    sample, wanted = expected(model)
    with simulated(dict(zip(blobs, programs, strict=True))) as cycles:
        machine = relax.VirtualMachine(made, tvm.cpu())
        output = machine["main"](*[tvm.runtime.tensor(each) for each in sample.values()]).numpy()
    assert np.abs(output - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert len(cycles) == len(programs) and min(cycles) > 0
