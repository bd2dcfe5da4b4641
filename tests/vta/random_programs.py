"""Programs that make little sense, by a seed: what the functional machine runs, portable or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
)
from toolchain.vta.machine.requests import EncodedProgram

_BASE, _BYTES = 0x2000, 0x20000
_PYNQ = SAMPLES["pynq"]
_CONFIGS = {
    "plain": _PYNQ,
    "revision 1": replace(_PYNQ, hw_ver="0.0.1"),
    "batch 2": replace(_PYNQ, log_batch=1),
    "block 8": replace(_PYNQ, log_block=3, log_inp_buff_size=14, log_wgt_buff_size=14, log_acc_buff_size=16),
}
_UOPS = 40


def any_program(seed: int, config: str) -> EncodedProgram:
    """Return a program whose stages take turns."""
    drawn = _Drawn(np.random.default_rng(seed), _CONFIGS[config])
    return drawn.program()


class _Drawn:
    def __init__(self, random: np.random.Generator, config: VtaConfig) -> None:
        self.random, self.config = random, config
        self.memory = random.integers(0, 256, _BYTES, np.uint8)
        # Micro-ops lie first. The half of each index: factors lead further.
        acc, inp, wgt = (config.buffers[m].index_bits for m in (Sram.ACC, Sram.INP, Sram.WGT))
        halves = [random.integers(0, 1 << bits - 1, _UOPS) for bits in (acc, inp, wgt)]
        words = (halves[0] | halves[1] << acc | halves[2] << acc + inp).astype("<u4")
        self.memory[: words.nbytes] = words.view(np.uint8)

    def program(self) -> EncodedProgram:
        """Return it."""
        loads = [self._load(memory) for memory in (Sram.INP, Sram.INP, Sram.WGT, Sram.WGT)]
        out: list[Instruction] = [Load(Sram.UOP, 0, _BASE // 4, 1, _UOPS, _UOPS), *loads]
        out += [nop(PipelineStage.LOAD, push_next=True), nop(PipelineStage.COMPUTE, pop_prev=True)]
        makers: list[Callable[[], Instruction]] = [
            self._gemm,
            self._alu,
            self._alu,
            lambda: self._load(Sram.ACC),
        ]
        if self.config.isa_rev == 2:
            makers.append(lambda: self._load(Sram.ACC_8BIT))
        out += [makers[self._below(len(makers))]() for _ in range(12)]
        out += [nop(PipelineStage.COMPUTE, push_next=True), nop(PipelineStage.STORE, pop_prev=True)]
        out += [self._store() for _ in range(4)]
        out += [nop(PipelineStage.STORE, push_prev=True), nop(PipelineStage.COMPUTE, pop_next=True), Finish()]
        code = encode_program(out, self.config)
        return EncodedProgram(self.config, code, self.memory.tobytes(), _BASE)

    def _below(self, limit: int) -> int:
        return int(self.random.integers(0, limit))

    def _load(self, memory: Sram) -> Load:
        buffer = self.config.buffers[memory]
        pads = [self._below(3) for _ in range(4)]
        y, x = self._below(4), self._below(6)
        block = (y + pads[0] + pads[1]) * (x + pads[2] + pads[3])
        stride = self._below(9)
        sram = self._below(buffer.depth - block)
        return Load(memory, sram, self._dram(memory, 4 * stride + x), y, x, stride, *pads)

    def _store(self) -> Store:
        y, x, stride = 1 + self._below(4), 1 + self._below(6), self._below(9)
        sram = self._below(self.config.buffers[Sram.OUT].depth - y * x)
        return Store(sram, self._dram(Sram.OUT, 4 * stride + x), y, x, stride)

    def _dram(self, memory: Sram, span: int) -> int:
        size = self.config.buffers[memory].element_bytes
        first, last = -(-_BASE // size), (_BASE + _BYTES) // size
        return first + self._below(last - first - span)

    def _loops(self) -> tuple[int, int, int, int]:
        begin = self._below(_UOPS)
        return begin, begin + self._below(_UOPS - begin + 1), self._below(4), self._below(5)

    def _factors(self, memory: Sram) -> tuple[int, int]:
        limit = self.config.buffers[memory].depth // 32
        return self._below(limit), self._below(limit)

    def _gemm(self) -> Gemm:
        factors = (
            *self._factors(Sram.ACC),
            *self._factors(Sram.INP),
            *self._factors(Sram.WGT),
        )
        return Gemm(*self._loops(), *factors, reset=self._below(4) == 0)

    def _alu(self) -> Alu:
        ops = [AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR, AluOp.SHR]
        if self.config.isa_rev == 2:
            ops.append(AluOp.MUL)
        factors = (*self._factors(Sram.ACC), *self._factors(Sram.ACC))
        imm = self._below(40) - 20 if self._below(2) else self._below(2**16) - 2**15
        op, use_imm = ops[self._below(len(ops))], bool(self._below(2))
        return Alu(op, *self._loops(), *factors, use_imm=use_imm, imm=imm)
