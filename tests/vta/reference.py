"""A second opinion on the machine: slow, obvious, and in no order but that of tokens.

Which of the stages that can go on goes on is drawn: a program whose result depends on it is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from toolchain.vta.design import Sram
from toolchain.vta.isa import (
    Alu,
    AluOp,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    decode_program,
    unpack_micro_ops,
)
from toolchain.vta.machine.requests import EncodedProgram

_TAKES = {
    (PipelineStage.LOAD, "pop_next"): "G2L",
    (PipelineStage.COMPUTE, "pop_prev"): "L2G",
    (PipelineStage.COMPUTE, "pop_next"): "S2G",
    (PipelineStage.STORE, "pop_prev"): "G2S",
}
_GIVES = {
    (PipelineStage.LOAD, "push_next"): "L2G",
    (PipelineStage.COMPUTE, "push_prev"): "G2L",
    (PipelineStage.COMPUTE, "push_next"): "G2S",
    (PipelineStage.STORE, "push_prev"): "S2G",
}


class Reference:
    """One run of a program; `memory` is the DRAM."""

    def __init__(self, program: EncodedProgram, seed: int = 0) -> None:
        self.config = program.config
        self.base = program.phys_base
        self.memory = np.frombuffer(program.memory, np.uint8).copy()
        rows, lanes = self.config.batch, self.config.block
        depth = {memory: buffer.depth for memory, buffer in self.config.buffers.items()}
        self.uop = np.zeros(depth[Sram.UOP], np.uint32)
        self.inp = np.zeros((depth[Sram.INP], rows, lanes), np.int8)
        self.wgt = np.zeros((depth[Sram.WGT], lanes, lanes), np.int8)
        self.acc = np.zeros((depth[Sram.ACC], rows, lanes), np.int32)
        self.out = np.zeros((depth[Sram.ACC], rows, lanes), np.int8)
        self._draw = random.Random(seed)
        queues: dict[PipelineStage, list[Instruction]] = {stage: [] for stage in PipelineStage}
        for instruction in decode_program(program.code, program.config):
            queues[instruction.stage].append(instruction)
        self._run(queues)

    def _run(self, queues: dict[PipelineStage, list[Instruction]]) -> None:
        tokens = dict.fromkeys(("L2G", "G2L", "G2S", "S2G"), 0)
        while any(queues.values()):
            ready = [
                stage
                for stage, queue in queues.items()
                if queue and all(tokens[link] for link in _links(queue[0], _TAKES))
            ]
            assert ready, "deadlock"
            instruction = queues[self._draw.choice(ready)].pop(0)
            for link in _links(instruction, _TAKES):
                tokens[link] -= 1
            self._execute(instruction)
            for link in _links(instruction, _GIVES):
                tokens[link] += 1

    def _execute(self, instruction: Instruction) -> None:
        if isinstance(instruction, Load):
            self._load(instruction)
        elif isinstance(instruction, Store):
            for y in range(instruction.y_size):
                for x in range(instruction.x_size):
                    data = self.out[instruction.sram_base + y * instruction.x_size + x].tobytes()
                    at = self._address(instruction, y, x)
                    self.memory[at : at + len(data)] = np.frombuffer(data, np.uint8)
        elif isinstance(instruction, Gemm | Alu):
            for d, s, w in self._steps(instruction):
                self._gemm(instruction, d, s, w) if isinstance(instruction, Gemm) else self._alu(
                    instruction, d, s
                )

    def _address(self, instruction: Load | Store, y: int, x: int) -> int:
        element = instruction.dram_base + y * instruction.x_stride + x
        return element * self.config.buffers[instruction.memory].element_bytes - self.base

    def _load(self, load: Load) -> None:
        size = self.config.buffers[load.memory].element_bytes
        kept: Any = {Sram.UOP: self.uop, Sram.INP: self.inp, Sram.WGT: self.wgt}.get(load.memory, self.acc)
        dtype = np.int8 if load.memory is Sram.ACC_8BIT else kept.dtype
        at = load.sram_base
        for y in range(-load.y_pad_0, load.y_size + load.y_pad_1):
            for x in range(-load.x_pad_0, load.x_size + load.x_pad_1):
                kept[at] = 0
                if 0 <= y < load.y_size and 0 <= x < load.x_size:
                    start = self._address(load, y, x)
                    kept[at] = self.memory[start : start + size].view(dtype).reshape(kept[at].shape)
                at += 1

    def _steps(self, now: Gemm | Alu) -> Iterator[tuple[int, int, int]]:
        uops = unpack_micro_ops(self.uop[now.uop_bgn : now.uop_end], self.config)
        for o in range(now.iter_out):
            for i in range(now.iter_in):
                for d, s, w in zip(*(field.tolist() for field in uops), strict=True):
                    wgt = 0 if isinstance(now, Alu) else w + o * now.wgt_factor_out + i * now.wgt_factor_in
                    dst = d + o * now.dst_factor_out + i * now.dst_factor_in
                    yield dst, s + o * now.src_factor_out + i * now.src_factor_in, wgt

    def _gemm(self, gemm: Gemm, d: int, s: int, w: int) -> None:
        if gemm.reset:
            self.acc[d] = 0
            return
        self.acc[d] += self.inp[s].astype(np.int32) @ self.wgt[w].astype(np.int32).T
        self.out[d] = self.acc[d].astype(np.int8)

    def _alu(self, alu: Alu, d: int, s: int) -> None:
        x = self.acc[d].astype(np.int64)
        y = np.int64(alu.imm) if alu.use_imm else self.acc[s].astype(np.int64)
        if alu.op is AluOp.SHR:
            value = np.where(y >= 0, x >> np.clip(y, 0, 63), x << np.clip(-y, 0, 32))
        else:
            value = {AluOp.MIN: np.minimum, AluOp.MAX: np.maximum, AluOp.ADD: np.add, AluOp.MUL: np.multiply}[
                alu.op
            ](x, y)
        self.acc[d] = value.astype(np.int32)
        self.out[d] = self.acc[d].astype(np.int8)


def _links(instruction: Instruction, table: dict[tuple[PipelineStage, str], str]) -> list[str]:
    return [
        link
        for (stage, flag), link in table.items()
        if instruction.stage is stage and getattr(instruction, flag)
    ]
