"""A small program that keeps every rule: eight vectors, a bias, a shift for each lane, a clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolchain.vta.design import SAMPLES, Sram, VtaConfig
from toolchain.vta.dumps.dump import PHYSICAL_BASE, Dump, Place
from toolchain.vta.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    nop,
    pack_micro_ops,
)
from toolchain.vta.isa.encode import encode_program
from toolchain.vta.lint import RuleViolation, problems

CONFIG = SAMPLES["pynq"]
UOPS, INPUTS, WEIGHTS, PARAMETERS, OUTPUTS, END = 0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
BIAS, SHIFT = 100, 101


def at(memory: Sram, offset: int) -> int:
    """Return the index in DRAM of what lies at an offset of the memory."""
    return (PHYSICAL_BASE + offset) // CONFIG.buffers[memory].element_bytes


def memory() -> bytearray:
    """Return it as it is before the program runs."""
    data = np.zeros(END, dtype=np.uint8)
    words = pack_micro_ops([0, 0, 0], [0, BIAS, SHIFT], config=CONFIG)
    data[UOPS : UOPS + words.nbytes] = words.view(np.uint8)
    data[INPUTS : INPUTS + 128] = np.arange(128)
    data[WEIGHTS : WEIGHTS + 256] = np.arange(256)
    parameters = np.array([[1000] * 16, range(16)], dtype="<i4")
    data[PARAMETERS : PARAMETERS + 128] = parameters.reshape(-1).view(np.uint8)
    return bytearray(data.tobytes())


def program() -> list[Instruction]:
    """Return the instructions; tests know their places."""
    return [
        Load(Sram.UOP, 0, at(Sram.UOP, UOPS), 1, 3, 3),
        Load(Sram.INP, 0, at(Sram.INP, INPUTS), 1, 8, 8),
        Load(Sram.WGT, 0, at(Sram.WGT, WEIGHTS), 1, 1, 1, push_next=True),
        Gemm(0, 1, 1, 8, 0, 1, reset=True),
        Gemm(0, 1, 1, 8, 0, 1, 0, 1, pop_prev=True),
        Load(Sram.ACC, BIAS, at(Sram.ACC, PARAMETERS), 1, 2, 2),
        Alu(AluOp.ADD, 1, 2, 1, 8, 0, 1),
        Alu(AluOp.SHR, 2, 3, 1, 8, 0, 1),
        Alu(AluOp.MAX, 0, 1, 1, 8, 0, 1, 0, 1, use_imm=True, imm=0),
        Alu(AluOp.MIN, 0, 1, 1, 8, 0, 1, 0, 1, use_imm=True, imm=127, push_next=True),
        Store(0, at(Sram.OUT, OUTPUTS), 1, 8, 8, pop_prev=True, push_prev=True),
        nop(PipelineStage.COMPUTE, pop_next=True),
        Finish(),
    ]


@dataclass
class Program:
    """What a test changes and then looks at."""

    instructions: list[Instruction]
    memory: bytearray
    base: int = PHYSICAL_BASE
    config: VtaConfig = CONFIG

    def change(self, index: int, **changes: Any) -> None:
        """Change fields of an instruction."""
        self.instructions[index] = replace(self.instructions[index], **changes)

    def words(self, offset: int, values: Any) -> None:
        """Write 32-bit words."""
        data = np.asarray(values, dtype="<i4").tobytes()
        self.memory[offset : offset + len(data)] = data

    def problems(self) -> list[RuleViolation]:
        """Return what lint finds."""
        return problems(self.instructions, bytes(self.memory), self.base, self.config)

    def dump(self) -> Dump:
        """Return it as a dump."""
        return Dump(
            self.config,
            encode_program(self.instructions, self.config),
            bytes(self.memory),
            inputs=[Place(offset=INPUTS, bytes=128, shape=(1, 1, 1, 8, 1, 16), dtype="int8")],
            outputs=[Place(offset=OUTPUTS, bytes=128, shape=(1, 1, 1, 8, 1, 16), dtype="int8")],
            phys_base=self.base,
        )


Change = Callable[[Program], None]


def good() -> Program:
    """Return the program that keeps every rule."""
    return Program(program(), memory())
