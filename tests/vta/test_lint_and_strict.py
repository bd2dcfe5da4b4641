"""The two judges of portability agree: lint, which looks at a program, and strict, which runs it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.convolutions import Conv, chain, convs
from toolchain.errors import UsageError
from toolchain.vta.design import Sram
from toolchain.vta.isa import Load, decode_program
from toolchain.vta.lint import problems
from toolchain.vta.machine.requests import EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import Simulator

pytestmark = pytest.mark.slow

SMALL = Conv(size=4, ci=2, co=4, kernel=2, stride=1, pad=1, rows=5, tile_co=2, residual=2)


def _lint(program: EncodedProgram) -> list[str]:
    instructions = decode_program(program.code, program.config)
    return [
        str(problem) for problem in problems(instructions, program.memory, program.phys_base, program.config)
    ]


@given(conv=convs(), seed=st.integers(0, 2**32))
def test_lint_and_strict_accept_portable_programs(simulator: Simulator, conv: Conv, seed: int) -> None:
    program, _, _ = chain([conv], seed)
    assert _lint(program) == []
    assert not isinstance(simulator.run(program, SimOptions(strict=True)), Refused)


@given(seed=st.integers(0, 2**32))
def test_strict_runs_nothing_that_lint_refuses(simulator: Simulator, seed: int) -> None:
    program, _, _ = chain([SMALL], 1)
    code = _flipped(program.code, random.Random(seed).randrange(8 * len(program.code)))
    _check_agreement(simulator, replace(program, code=code))


@given(seed=st.integers(0, 2**32))
def test_strict_agrees_with_lint_on_mutated_micro_ops(simulator: Simulator, seed: int) -> None:
    program, _, _ = chain([SMALL], 1)
    draw = random.Random(seed)
    loads = [
        instruction
        for instruction in decode_program(program.code, program.config)
        if isinstance(instruction, Load)
    ]
    load = draw.choice(
        [instruction for instruction in loads if instruction.memory is Sram.UOP and instruction.x_size]
    )
    first = 8 * (load.dram_base * 4 - program.phys_base)
    bit = first + draw.randrange(32 * load.x_size)
    _check_agreement(simulator, replace(program, memory=_flipped(program.memory, bit)))


def _flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def _check_agreement(simulator: Simulator, changed: EncodedProgram) -> None:
    try:
        complaints = _lint(changed)
    except UsageError as error:
        complaints = [error.message]
    outcome = simulator.run(changed, SimOptions(strict=True))
    assert isinstance(outcome, Refused) or not complaints, complaints
