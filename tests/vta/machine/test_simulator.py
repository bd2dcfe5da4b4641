"""The machine in software against numpy, and the process that it runs in."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta import eight_vectors as of
from tests.vta.convolutions import Conv, chain, convs
from tests.vta.eight_vectors import EightVectors
from tests.vta.random_programs import any_program
from tests.vta.reference import Reference
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.vta.design import SAMPLES
from toolchain.vta.machine.requests import EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import Simulated, Simulator

pytestmark = pytest.mark.slow

SMALL = Conv(size=6, ci=2, co=4, kernel=3, stride=1, pad=1, rows=3, tile_co=2, residual=2)


def _ran(simulator: Simulator, program: EncodedProgram, wish: SimOptions) -> Simulated:
    outcome = simulator.run(program, wish)
    assert isinstance(outcome, Simulated), outcome
    return outcome


@given(first=convs(), more=st.booleans(), seed=st.integers(0, 2**32), data=st.data())
def test_convolutions_match_numpy(
    simulator: Simulator, first: Conv, more: bool, seed: int, data: st.DataObject
) -> None:
    layers = [first]
    if more:  # layer after layer: the second reads what the first one stored
        layers.append(data.draw(convs(size=first.out, ci=first.co)))
    program, at, expected = chain(layers, seed)
    after = np.frombuffer(_ran(simulator, program, SimOptions(strict=True)).memory or b"", np.int8)
    np.testing.assert_array_equal(after[at : at + expected.size].reshape(expected.shape), expected)


@pytest.mark.parametrize("seed", range(4))
def test_the_result_does_not_depend_on_which_stage_is_faster(simulator: Simulator, seed: int) -> None:
    program, _, _ = chain([replace(SMALL, size=3, rows=1, tile_co=4)], 1)
    after = _ran(simulator, program, SimOptions(strict=True)).memory
    assert Reference(program, seed).memory.tobytes() == after


@given(seed=st.integers(0, 2**32), config=st.sampled_from(["plain", "revision 1", "batch 2", "block 8"]))
def test_random_programs_match_the_reference(simulator: Simulator, seed: int, config: str) -> None:
    program = any_program(seed, config)
    assert _ran(simulator, program, SimOptions()).memory == Reference(program).memory.tobytes()


def test_cycles_match_the_model(simulator: Simulator) -> None:
    outcome = _ran(simulator, EightVectors().program(), SimOptions(timeline=True))
    assert outcome.timeline is not None
    cycles = (outcome.timeline[:, 1] - outcome.timeline[:, 0]).tolist()
    # Of each 10; of a DMA 40 for its row and 8 bytes a cycle; of GEMM and ALU 12, and 1 or 2 for a step.
    assert cycles == [52, 66, 82, 66, 30, 30, *[38] * 4, 66, 10, 10]
    # Load ends at 4 + 66 + 82; GEMM waits for it, the ALU and STORE follow.
    gemm, finish = 4 + 66 + 82, 4 + 66 + 82 + 30 + 4 * 38 + 66 + 10 + 10
    assert outcome.timeline[of.GEMM].tolist() == [gemm, gemm + 30]
    assert outcome.model.cycles == finish
    assert outcome.milliseconds == pytest.approx(finish / 1e5)
    stages = outcome.model.stages
    assert (stages.load.instructions, stages.compute.instructions, stages.store.instructions) == (2, 10, 1)
    assert stages.load.busy == 148 and stages.store.busy == 66
    waited = stages.compute
    assert waited.busy + waited.wait_tokens + waited.wait_fetch == finish
    assert (outcome.model.gemm_steps, outcome.model.alu_steps) == (16, 32)
    assert outcome.model.dma_bytes == 16 + 128 + 256 + 128 + 128


def test_cycle_model_needs_no_memory(simulator: Simulator) -> None:
    program, _, _ = chain([SMALL], 3)
    computed = _ran(simulator, program, SimOptions())
    timed = _ran(simulator, replace(program, memory=b""), SimOptions(computes=False))
    assert timed.model == computed.model and timed.memory is None


def test_programs_do_not_see_earlier_programs_data(simulator: Simulator) -> None:
    vectors = EightVectors()
    vectors.change(of.LOAD_WGT, sram_base=1)  # GEMM multiplies with what nobody loaded
    first = _ran(simulator, vectors.program(), SimOptions())
    _ran(simulator, EightVectors().program(), SimOptions())
    assert _ran(simulator, vectors.program(), SimOptions()).memory == first.memory


def test_simulator_survives_a_refused_program(simulator: Simulator) -> None:
    bad = EightVectors()
    bad.instructions.pop()
    assert isinstance(simulator.run(bad.program(), SimOptions(strict=True)), Refused)
    _ran(simulator, EightVectors().program(), SimOptions(strict=True))


def test_refuses_an_impossible_configuration(simulator: Simulator) -> None:
    program = replace(EightVectors().program(), config=replace(SAMPLES["pynq"], log_uop_buff_size=20))
    outcome = simulator.run(program)
    assert isinstance(outcome, Refused) and outcome.rule == "configuration"


@pytest.mark.parametrize("change", [{"code": b"x" * 17}, {"memory": bytes(2**25 + 1)}])
def test_refuses_programs_larger_than_a_driver_moves(simulator: Simulator, change: dict[str, bytes]) -> None:
    with pytest.raises(UsageError):
        simulator.run(replace(EightVectors().program(), **change))


def _script(text: str) -> Simulator:
    return Simulator([sys.executable, "-c", text])


def test_unresponsive_simulator_is_killed() -> None:
    with (
        _script("import time; time.sleep(600)") as silent,
        pytest.raises(ToolchainError, match=r"after 0\.2 s"),
    ):
        silent.run(EightVectors().program(), deadline_s=0.2)


def test_dead_simulator_reports_its_last_message() -> None:
    text = "import sys; sys.stdin.buffer.read(9); sys.exit('edge-rt: no memory')"
    with _script(text) as dying, pytest.raises(ToolchainError, match="edge-rt: no memory"):
        dying.run(EightVectors().program())


@pytest.mark.parametrize("answer", ["b'x' * 28", "b'VTAA' + bytes(24)", 'b\'{"error": {"kind": "usage"}}\''])
def test_refuses_an_inconsistent_answer(answer: str) -> None:
    text = f"import sys; sys.stdin.buffer.read(9); sys.stdout.buffer.write({answer}); sys.stdout.flush()"
    with (
        _script(text + "; sys.stdin.buffer.read()") as lying,
        pytest.raises(CheckError, match="does not fit"),
    ):
        lying.run(EightVectors().program())


def test_restarts_after_the_process_ended(simulator: Simulator) -> None:
    simulator.run(EightVectors().program())
    simulator.close()
    assert isinstance(simulator.run(EightVectors().program()), Simulated)


def test_ctrl_c_ends_the_simulator() -> None:
    silent = _script("import time; time.sleep(600)")
    clock = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        clock.start()
        silent.run(EightVectors().program(), deadline_s=60)
    clock.join()
    assert silent._child is None and time.monotonic() - began < 50
