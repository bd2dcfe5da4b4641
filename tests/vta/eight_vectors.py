"""A small program that keeps every rule, for tests that break one: eight vectors, a bias, shifts, a clip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from toolchain.vta.design import SAMPLES, Sram, VtaConfig
from toolchain.vta.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    encode_program,
    nop,
    pack_micro_ops,
)
from toolchain.vta.machine.requests import EncodedProgram

BASE = 0x1000
UOPS, INPUTS, WEIGHTS, PARAMETERS, OUTPUTS, END = 0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
# Micro-ops: a vector; with the bias and the shifts as sources; with another source than the vector.
VECTOR, BIAS, SHIFTS, OTHER = (0, 1), (1, 2), (2, 3), (3, 4)
# Indices of instructions.
LOAD_UOP, LOAD_INP, LOAD_WGT, LOAD_ACC, RESET, GEMM, ADD, SHR, MAX, MIN, STORE, WAIT, FINISH = range(13)


def at(memory: Sram, offset: int, config: VtaConfig = SAMPLES["pynq"]) -> int:
    """Return the index in DRAM of what lies at an offset of the memory."""
    return (BASE + offset) // config.buffers[memory].element_bytes


class EightVectors:
    """The program, and what a test changes of it."""

    def __init__(self) -> None:
        self.config = SAMPLES["pynq"]
        self.instructions: list[Instruction] = [
            Load(Sram.UOP, 0, at(Sram.UOP, UOPS), 1, 4, 4),
            Load(Sram.INP, 0, at(Sram.INP, INPUTS), 1, 8, 8),
            Load(Sram.WGT, 0, at(Sram.WGT, WEIGHTS), 1, 1, 1, push_next=True),
            Load(Sram.ACC, 100, at(Sram.ACC, PARAMETERS), 1, 2, 2),
            Gemm(*VECTOR, 1, 8, 0, 1, reset=True),
            Gemm(*VECTOR, 1, 8, 0, 1, 0, 1, pop_prev=True),
            Alu(AluOp.ADD, *BIAS, 1, 8, 0, 1),
            Alu(AluOp.SHR, *SHIFTS, 1, 8, 0, 1),
            Alu(AluOp.MAX, *VECTOR, 1, 8, 0, 1, 0, 1, use_imm=True, imm=0),
            Alu(AluOp.MIN, *VECTOR, 1, 8, 0, 1, 0, 1, use_imm=True, imm=127, push_next=True),
            Store(0, at(Sram.OUT, OUTPUTS), 1, 8, 8, pop_prev=True, push_prev=True),
            nop(PipelineStage.COMPUTE, pop_next=True),
            Finish(),
        ]
        memory = np.zeros(END, np.uint8)
        random = np.random.default_rng(1)
        words = pack_micro_ops([0, 0, 0, 0], [0, 100, 101, 50], config=self.config)
        memory[UOPS : UOPS + words.nbytes] = words.view(np.uint8)
        memory[INPUTS : INPUTS + 128] = random.integers(0, 256, 128, np.uint8)
        memory[WEIGHTS : WEIGHTS + 256] = random.integers(0, 256, 256, np.uint8)
        self.memory = memory
        self.parameters([1000] * 16, range(16))

    def parameters(self, bias: Any, shifts: Any) -> None:
        """Set the bias and the shifts of the lanes."""
        data = np.array([list(bias), list(shifts)], dtype="<i4")
        self.memory[PARAMETERS : PARAMETERS + data.nbytes] = data.reshape(-1).view(np.uint8)

    def change(self, index: int, **fields: Any) -> None:
        """Change fields of an instruction."""
        self.instructions[index] = replace(self.instructions[index], **fields)

    def expected(self) -> np.ndarray:
        """Return the eight vectors."""
        inputs = self.memory[INPUTS : INPUTS + 128].view(np.int8).reshape(8, 16).astype(np.int64)
        weights = self.memory[WEIGHTS : WEIGHTS + 256].view(np.int8).reshape(16, 16).astype(np.int64)
        bias, shifts = self.memory[PARAMETERS : PARAMETERS + 128].view("<i4").reshape(2, 16).astype(np.int64)
        return np.clip((inputs @ weights.T + bias) >> shifts, 0, 127).astype(np.int8)

    def program(self) -> EncodedProgram:
        """Return it, encoded."""
        code = encode_program(self.instructions, self.config)
        return EncodedProgram(self.config, code, self.memory.tobytes(), BASE)
