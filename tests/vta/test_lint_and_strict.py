"""The two judges of portability agree: lint, which looks at a program, and strict, which runs it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.convolutions import Conv, chain, convs
from toolchain.errors import UsageError
from toolchain.vta.isa import decode_program
from toolchain.vta.lint import problems
from toolchain.vta.requests import Program, Refused, Wish
from toolchain.vta.simulator import Simulator

pytestmark = pytest.mark.slow

SMALL = Conv(size=4, ci=2, co=4, kernel=2, stride=1, pad=1, rows=5, tile_co=2, residual=2)


def _lint(program: Program) -> list[str]:
    found = decode_program(program.code, program.config)
    return [str(problem) for problem in problems(found, program.memory, program.phys_base, program.config)]


@given(conv=convs(), seed=st.integers(0, 2**32))
def test_what_keeps_the_rules_does_so_for_both(simulator: Simulator, conv: Conv, seed: int) -> None:
    program, _, _ = chain([conv], seed)
    assert _lint(program) == []
    assert not isinstance(simulator.run(program, Wish(strict=True)), Refused)


@given(seed=st.integers(0, 2**32))
def test_strict_runs_nothing_that_lint_refuses(simulator: Simulator, seed: int) -> None:
    program, _, _ = chain([SMALL], 1)
    draw = random.Random(seed)
    code = bytearray(program.code)
    bit = draw.randrange(8 * len(code))
    code[bit // 8] ^= 1 << bit % 8
    changed = replace(program, code=bytes(code))
    try:
        found = _lint(changed)
    except UsageError as error:
        found = [error.message]
    outcome = simulator.run(changed, Wish(strict=True))
    assert isinstance(outcome, Refused) or not found, found
