"""Checks the rules that concern a single instruction."""

from __future__ import annotations

from toolchain.vta.design.config import Sram, VtaConfig
from toolchain.vta.isa.instructions import (
    FLAGS,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    is_nop,
)
from toolchain.vta.lint.problem import Finder

_SHIFTS = range(-16, 16)
_BEYOND = {PipelineStage.LOAD: ("pop_prev", "push_prev"), PipelineStage.STORE: ("pop_next", "push_next")}


def check_alone(finder: Finder, index: int, instruction: Instruction, config: VtaConfig) -> None:
    """Add the rules that one instruction breaks by itself."""
    for flag in _BEYOND.get(instruction.stage, ()):
        if getattr(instruction, flag):
            finder.add("tokens", index, f"{flag} is set, and nothing is on that side of its stage")
    match instruction:
        case Load() | Store():
            if instruction.memory is Sram.ACC_8BIT:
                finder.add("memory", index, "hardware does not load int8 into ACC")
            if not is_nop(instruction):
                _moved(finder, index, instruction, config)
        case Gemm() | Alu():
            _loops(finder, index, instruction)
        case Finish():
            if any(getattr(instruction, flag) for flag in FLAGS):
                finder.add("finish", index, "it has flags; let a NOP before it take tokens")
    if isinstance(instruction, Alu):
        _alu(finder, index, instruction)


def _moved(finder: Finder, index: int, moved: Load | Store, config: VtaConfig) -> None:
    if not moved.y_size or not moved.x_size:
        reason = f"sizes are y{moved.y_size} x{moved.x_size}; either all are 0, padding too, or none"
        finder.add("trip-count", index, reason)
    if moved.memory is Sram.UOP and moved.y_size > 1:
        finder.add("memory", index, f"{moved.y_size} rows of micro-ops; hardware loads the first alone")
    if moved.y_pad_0 or moved.y_pad_1 or moved.x_pad_0 or moved.x_pad_1:
        padded = {Sram.INP} if config.isa_rev == 1 else {Sram.INP, Sram.ACC}
        if moved.memory not in padded:
            revision = f" of revision {config.isa_rev}" if moved.memory is Sram.ACC else ""
            finder.add("padding", index, f"hardware{revision} ignores padding of {moved.memory.name}")


def _loops(finder: Finder, index: int, loops: Gemm | Alu) -> None:
    if not loops.iter_out or not loops.iter_in:
        reason = f"loops are out{loops.iter_out} in{loops.iter_in}; some hardware does not stop at 0"
        finder.add("trip-count", index, reason)
    if loops.uop_bgn >= loops.uop_end:
        reason = f"{loops.uop_bgn}..{loops.uop_end} are no micro-ops; some hardware does not stop there"
        finder.add("trip-count", index, reason)


def _alu(finder: Finder, index: int, alu: Alu) -> None:
    if alu.op is AluOp.MUL:
        finder.add("alu", index, "hardware has no MUL")
    if not alu.use_imm:
        return
    if alu.op is AluOp.SHR and alu.imm not in _SHIFTS:
        finder.add("shift", index, f"{alu.imm} is not from -16 to 15: hardware keeps 5 bits of it")
    dst, src = (alu.dst_factor_out, alu.dst_factor_in), (alu.src_factor_out, alu.src_factor_in)
    if dst != src:
        reason = f"its src factors are {src}, its dst factors {dst}: implementations read ACC at either"
        finder.add("immediate", index, reason)
