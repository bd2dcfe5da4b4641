"""VTA's instructions as classes, whose fields are named as in Apache TVM's documentation of VTA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, TypeAlias

from toolchain.vta.design import Sram


class Opcode(IntEnum):
    """The first three bits of an instruction."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class AluOp(IntEnum):
    """The operations of ALU instructions."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4
    """One of several simulators supports it, no hardware does."""


class PipelineStage(IntEnum):
    """The stages in their order, which defines an instruction's previous and next stage."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The tokens that an instruction pops before it begins, and pushes after it has ended."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


FLAGS = tuple(field.name for field in fields(Flags))
"""The names of the flags, in the order of their bits."""


@dataclass(frozen=True, slots=True)
class Load(Flags):
    """Moves rows of elements from DRAM to the chip, padded with zeros. All sizes 0: a `nop`."""

    memory: Sram
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    @property
    def stage(self) -> PipelineStage:
        """The queue that executes it."""
        return PipelineStage.LOAD if self.memory in (Sram.INP, Sram.WGT) else PipelineStage.COMPUTE


@dataclass(frozen=True, slots=True)
class Store(Flags):
    """Moves consecutive elements of OUT to rows in DRAM."""

    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    @property
    def memory(self) -> Sram:
        """The buffer that it stores, always OUT."""
        return Sram.OUT

    @property
    def stage(self) -> PipelineStage:
        """The queue that executes it."""
        return PipelineStage.STORE


@dataclass(frozen=True, slots=True)
class Gemm(Flags):
    """Computes, for o, for i, for each micro-op: ACC[d] += INP[s] x WGT[w]; with `reset`, ACC[d] = 0."""

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0
    reset: bool = False

    @property
    def stage(self) -> PipelineStage:
        """The queue that executes it."""
        return PipelineStage.COMPUTE


@dataclass(frozen=True, slots=True)
class Alu(Flags):
    """Computes, for o, for i, for each micro-op: ACC[d] = op(ACC[d], imm), or op(ACC[d], ACC[s])."""

    op: AluOp
    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    use_imm: bool = False
    imm: int = 0

    @property
    def stage(self) -> PipelineStage:
        """The queue that executes it."""
        return PipelineStage.COMPUTE


@dataclass(frozen=True, slots=True)
class Finish(Flags):
    """Ends the program."""

    @property
    def stage(self) -> PipelineStage:
        """The queue that executes it."""
        return PipelineStage.COMPUTE


Instruction: TypeAlias = Load | Store | Gemm | Alu | Finish

_NOPS: dict[PipelineStage, Callable[..., Load | Store]] = {
    PipelineStage.LOAD: lambda **flags: Load(Sram.INP, 0, 0, 0, 0, 0, **flags),
    PipelineStage.COMPUTE: lambda **flags: Load(Sram.UOP, 0, 0, 0, 0, 0, **flags),
    PipelineStage.STORE: lambda **flags: Store(0, 0, 0, 0, 0, **flags),
}


def nop(
    stage: PipelineStage,
    *,
    pop_prev: bool = False,
    pop_next: bool = False,
    push_prev: bool = False,
    push_next: bool = False,
) -> Load | Store:
    """Return an instruction that only pops and pushes tokens."""
    return _NOPS[stage](pop_prev=pop_prev, pop_next=pop_next, push_prev=push_prev, push_next=push_next)


def is_nop(instruction: Instruction) -> bool:
    """Return whether an instruction only pops and pushes tokens."""
    return (
        isinstance(instruction, Load | Store)
        and not instruction.y_size
        and not instruction.x_size
        and not (instruction.y_pad_0 or instruction.y_pad_1 or instruction.x_pad_0 or instruction.x_pad_1)
    )


# Disassembles instructions to text.

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
