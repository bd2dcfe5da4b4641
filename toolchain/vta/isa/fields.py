"""The bit positions of the fields of instructions and micro-ops, by configuration and revision.

The widths of indices depend on the depths of the buffers, and so do the positions of later fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from toolchain.vta.design import BITS_OF_INSTRUCTION, BITS_OF_MICRO_OP, Sram, VtaConfig
from toolchain.vta.isa.instructions import FLAGS, Opcode

_WORD = 64  # an instruction has two words; no field crosses their boundary
_ITERATIONS = 14
_TOO_LONG = (
    ("first", "LOG_UOP_BUFF_SIZE smaller"),
    ("second", "LOG_WGT_BUFF_SIZE smaller, or both LOG_INP_BUFF_SIZE and LOG_ACC_BUFF_SIZE"),
)


@dataclass(frozen=True)
class Field:
    """A field of an instruction.

    Attributes
    ----------
    name
        Name of the instruction's attribute; `opcode` is not an attribute.
    low, width
        Its lowest bit, and its number of bits.
    signed
        Whether the value is in two's complement.
    """

    name: str
    low: int
    width: int
    signed: bool = False

    @property
    def mask(self) -> int:
        """As many one bits as the field is wide."""
        return (1 << self.width) - 1

    @property
    def range(self) -> range:
        """The values that fit the field."""
        half = 1 << self.width - 1
        return range(-half, half) if self.signed else range(1 << self.width)


@dataclass(frozen=True)
class Fields:
    """The fields of all instructions.

    Attributes
    ----------
    of
        Fields of each opcode's instructions.
    reserved
        Mask of the bits that are in no field and must be zero.
    micro_op
        Widths of `dst`, `src` and `wgt` in a micro-op, from the lowest bit on.
    """

    of: dict[Opcode, tuple[Field, ...]]
    reserved: dict[Opcode, int]
    micro_op: tuple[int, int, int]

    def most(self, opcode: Opcode, name: str) -> int:
        """Return the largest value that fits a field."""
        return next(field.range[-1] for field in self.of[opcode] if field.name == name)


@lru_cache(maxsize=8)
def fields_of(config: VtaConfig) -> Fields:
    """Return the positions of all fields for a configuration."""
    widths = _widths(config)
    placed = {opcode: _place(first, second) for opcode, (first, second) in widths.items()}
    reserved = {opcode: _unused(fields) for opcode, fields in placed.items()}
    # Hardware ignores this bit in ALU instructions; in a GEMM it resets the accumulators.
    reserved[Opcode.ALU] &= ~(1 << 7)
    return Fields(placed, reserved, _micro_op(config))


def problem_of_words(config: VtaConfig) -> str:
    """Return which word is too narrow for the indices of a configuration; empty if all fit."""
    for opcode, words in _widths(config).items():
        for number, fields in enumerate(words):
            bits = sum(width for _name, width in fields)
            if bits > _WORD:
                which, smaller = _TOO_LONG[number]
                word = f"the {which} word of {opcode.name}"
                return f"{word} would need {bits} bits and has {_WORD}: make {smaller}"
        first, second = (sum(width for _name, width in words[0]), words[1])
        if second and first + second[0][1] <= _WORD:
            name = opcode.name
            return (  # upstream's header uses bit fields, which a C compiler would pack like that
                f"the first word of {name} would take in a field of the second: make LOG_UOP_BUFF_SIZE larger"
            )
    bits = sum(_micro_op(config))
    if bits > BITS_OF_MICRO_OP:
        return f"a micro-op would need {bits} bits and has {BITS_OF_MICRO_OP}: make {_TOO_LONG[1][1]}"
    return ""


_Widths = list[tuple[str, int]]


def _widths(config: VtaConfig) -> dict[Opcode, tuple[_Widths, _Widths]]:
    head: _Widths = [("opcode", 3), *((flag, 1) for flag in FLAGS)]
    old = config.isa_rev == 1
    buffers = config.buffers
    uop, inp = buffers[Sram.UOP].index_bits, buffers[Sram.INP].index_bits
    wgt, acc = buffers[Sram.WGT].index_bits, buffers[Sram.ACC].index_bits
    moved = (
        [*head, ("memory", 2 if old else 3), ("sram_base", 16), ("dram_base", 32)],
        [
            *(("y_size", 16), ("x_size", 16), ("x_stride", 16)),
            *(("y_pad_0", 4), ("y_pad_1", 4), ("x_pad_0", 4), ("x_pad_1", 4)),
        ],
    )
    loops: _Widths = [("uop_bgn", uop), ("uop_end", uop + 1)]
    loops += [("iter_out", _ITERATIONS), ("iter_in", _ITERATIONS)]
    dst: _Widths = [("dst_factor_out", acc), ("dst_factor_in", acc)]
    gemm: _Widths = [("src_factor_out", inp), ("src_factor_in", inp)]
    gemm += [("wgt_factor_out", wgt), ("wgt_factor_in", wgt)]
    alu: _Widths = [("src_factor_out", acc), ("src_factor_in", acc)]
    alu += [("op", 2 if old else 3), ("use_imm", 1), ("imm", 16)]
    return {
        Opcode.LOAD: moved,
        Opcode.STORE: moved,
        Opcode.GEMM: ([*head, ("reset", 1), *loops], dst + gemm),
        Opcode.ALU: ([*head, ("", 1), *loops], dst + alu),
        Opcode.FINISH: (head, []),
    }


def _micro_op(config: VtaConfig) -> tuple[int, int, int]:
    buffers = config.buffers
    acc, inp, wgt = (buffers[memory].index_bits for memory in (Sram.ACC, Sram.INP, Sram.WGT))
    return acc, inp, wgt


def _place(first: _Widths, second: _Widths) -> tuple[Field, ...]:
    return (*_in_word(first, 0), *_in_word(second, _WORD))


def _in_word(widths: _Widths, low: int) -> Iterable[Field]:
    for name, width in widths:
        if name:
            yield Field(name, low, width, signed=name == "imm")
        low += width


def _unused(fields: Iterable[Field]) -> int:
    used = 0
    for field in fields:
        used |= field.mask << field.low
    return used ^ ((1 << BITS_OF_INSTRUCTION) - 1)
