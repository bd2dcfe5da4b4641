"""Disassembles instructions to text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolchain.vta.isa.instructions import (
    FLAGS,
    Alu,
    Finish,
    Gemm,
    Instruction,
    Load,
    Store,
    is_nop,
    nop,
)

_WITHOUT: dict[str, Any] = dict.fromkeys(FLAGS, False)


def text_of(instruction: Instruction) -> str:
    """Return an instruction as one line; indices into DRAM and the chip are hexadecimal."""
    words = [_body(instruction), *(flag for flag in FLAGS if getattr(instruction, flag))]
    return " ".join(words)


def disassemble(instructions: Sequence[Instruction]) -> list[str]:
    """Return a line for each instruction, with its index, stage and text."""
    width = len(str(max(len(instructions) - 1, 0)))
    return [
        f"{index:>{width}}  {instruction.stage.name.lower():<7}  {text_of(instruction)}"
        for index, instruction in enumerate(instructions)
    ]


def _body(instruction: Instruction) -> str:
    if is_nop(instruction) and replace(instruction, **_WITHOUT) == nop(instruction.stage):
        return f"NOP {instruction.stage.name.lower()}"
    match instruction:
        case Load() | Store():
            return _moved(instruction)
        case Gemm():
            reset = " reset" if instruction.reset else ""
            return f"GEMM{reset} {_loops(instruction)} wgt{_pair(instruction, 'wgt_factor')}"
        case Alu():
            operand = f" imm {instruction.imm}" if instruction.use_imm else ""
            return f"ALU {instruction.op.name}{operand} {_loops(instruction)}"
        case Finish():
            return "FINISH"


def _moved(instruction: Load | Store) -> str:
    name = type(instruction).__name__.upper()
    text = (
        f"{name} {instruction.memory.name} sram {instruction.sram_base:#x} dram {instruction.dram_base:#x} "
        f"y{instruction.y_size} x{instruction.x_size} stride{instruction.x_stride}"
    )
    if instruction.y_pad_0 or instruction.y_pad_1:
        text += f" ypad({instruction.y_pad_0},{instruction.y_pad_1})"
    if instruction.x_pad_0 or instruction.x_pad_1:
        text += f" xpad({instruction.x_pad_0},{instruction.x_pad_1})"
    return text


def _loops(instruction: Gemm | Alu) -> str:
    return (
        f"uop {instruction.uop_bgn}..{instruction.uop_end} out{instruction.iter_out} in{instruction.iter_in} "
        f"dst{_pair(instruction, 'dst_factor')} src{_pair(instruction, 'src_factor')}"
    )


def _pair(instruction: Gemm | Alu, name: str) -> str:
    return f"({getattr(instruction, f'{name}_out')},{getattr(instruction, f'{name}_in')})"
