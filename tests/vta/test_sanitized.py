"""Programs with errors, against the machine with sanitizers: an error or a wrong answer, never a crash."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.fuzz.sanitized import OPTIONS
from tests.vta.compiled import verb
from tests.vta.convolutions import Conv, chain
from toolchain.vta.machine.requests import EncodedProgram, SimOptions
from toolchain.vta.machine.simulator import Simulator

pytestmark = pytest.mark.full

CASES = 500
LAYERS = [Conv(8, 2, 4, 3, 1, 1, 2, 2, 3), Conv(8, 4, 4, 2, 2, 0, 4, 4, 6)]


@pytest.fixture(scope="module")
def sanitized() -> Iterator[Simulator]:
    """Return the machine with sanitizers."""
    options = [f"{name}={value}" for name, value in OPTIONS.items()]
    with Simulator(["env", *options, str(verb())]) as running:
        yield running


def mutated(program: EncodedProgram, draw: random.Random) -> EncodedProgram:
    """Return a program with bits, words or instructions changed, or another base or less memory."""
    code = bytearray(program.code)
    count = len(code) // 16
    kind = draw.randrange(7)
    if kind == 6:
        code = bytearray(draw.randbytes(16 * draw.randrange(40)))
    for _ in range(draw.choice([1, 1, 2, 5, 40])):
        at = draw.randrange(len(code)) if code else 0
        if kind == 0:
            code[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            code[at] = draw.choice([0, 1, 127, 128, 255])
        elif kind == 2:  # one instruction in the place of another
            first, second = (16 * draw.randrange(count) for _ in range(2))
            code[first : first + 16], code[second : second + 16] = (
                code[second : second + 16],
                code[first : first + 16],
            )
        elif kind == 3 and len(code) > 16:
            at -= at % 16
            del code[at : at + 16]
    memory, base = bytearray(program.memory), program.phys_base
    if kind == 4:  # micro-ops lie in it too
        for _ in range(2000):
            memory[draw.randrange(len(memory))] = draw.randrange(256)
    elif kind == 5:
        base = draw.choice([0, 1, 0x1001, 0xFFFFF000, 2**32 - 1])
        memory = memory[: draw.randrange(len(memory))] if draw.random() < 0.5 else memory
    return replace(program, code=bytes(code), memory=bytes(memory), phys_base=base)


@pytest.mark.parametrize("part", range(5))
def test_mutated_programs_never_crash_the_simulator(sanitized: Simulator, part: int) -> None:
    program, _, _ = chain(LAYERS, 1)
    for case in range(part * CASES // 5, (part + 1) * CASES // 5):
        draw = random.Random(case)
        wish = SimOptions(
            strict=draw.random() < 0.5, computes=draw.random() < 0.9, timeline=draw.random() < 0.3
        )
        changed = mutated(program, draw)
        if draw.random() < 0.3:
            sizes = {"log_block": draw.randrange(9), "log_batch": draw.randrange(9)}
            changed = replace(changed, config=replace(program.config, **sizes))
        sanitized.run(changed, wish)  # raises where the process has ended
