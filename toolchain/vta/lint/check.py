"""Checks all rules on one program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolchain.vta.design.config import VtaConfig
from toolchain.vta.isa.encode import INSTRUCTION_BYTES
from toolchain.vta.isa.instructions import Instruction
from toolchain.vta.lint.alone import check_alone
from toolchain.vta.lint.arena import Arena
from toolchain.vta.lint.chip import Chip
from toolchain.vta.lint.problem import Finder, RuleViolation
from toolchain.vta.lint.tokens import Order, check_tokens


def problems(
    program: Sequence[Instruction], memory: bytes | memoryview, phys_base: int, config: VtaConfig
) -> list[RuleViolation]:
    """Return the rules that a program breaks, in program order; an empty list if it is portable.

    Parameters
    ----------
    memory
        Content of the memory before the program runs, with micro-ops and parameters.
    phys_base
        Physical address of the memory.
    """
    finder = Finder(program)
    arena = Arena(np.frombuffer(memory, dtype=np.uint8), phys_base, config)
    arena.check(finder, len(program) * INSTRUCTION_BYTES)
    for index, instruction in enumerate(program):
        check_alone(finder, index, instruction, config)
    # Of a program with a deadlock, the instructions that can run are still checked.
    order = Order(program)
    check_tokens(finder, order)
    Chip(finder, order, config, arena).run(program)
    return finder.found()
