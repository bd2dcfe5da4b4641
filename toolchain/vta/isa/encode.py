"""Encodes instructions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.vta.design.config import BITS_OF_INSTRUCTION, Sram, VtaConfig
from toolchain.vta.isa.fields import Field, Fields, fields_of
from toolchain.vta.isa.instructions import Alu, Finish, Gemm, Instruction, Load, Opcode, Store

INSTRUCTION_BYTES = BITS_OF_INSTRUCTION // 8

_OPCODES: dict[type[Any], Opcode] = {
    Load: Opcode.LOAD,
    Store: Opcode.STORE,
    Gemm: Opcode.GEMM,
    Alu: Opcode.ALU,
    Finish: Opcode.FINISH,
}


class EncodingError(ToolchainError):
    """A value of an instruction does not fit its encoding."""


def encode(instruction: Instruction, config: VtaConfig) -> int:
    """Encode an instruction to 128 bits.

    Raises
    ------
    EncodingError
        A value does not fit; the message names the field and its range.
    """
    return _encode(instruction, fields_of(config), config.isa_rev)


def encode_program(instructions: Iterable[Instruction], config: VtaConfig) -> bytes:
    """Encode instructions as they are stored in memory.

    Raises
    ------
    EncodingError
        A value does not fit; the message names the instruction's index, too.
    """
    fields, revision = fields_of(config), config.isa_rev
    words = bytearray()
    index = 0
    try:
        for index, instruction in enumerate(instructions):  # noqa: B007, the error below names it
            words += _encode(instruction, fields, revision).to_bytes(INSTRUCTION_BYTES, "little")
    except EncodingError as error:
        raise EncodingError(f"instruction {index}: {error.message}", error.hint) from error
    return bytes(words)


def _encode(instruction: Instruction, fields: Fields, revision: int) -> int:
    opcode = _OPCODES[type(instruction)]
    word = int(opcode)
    for field in fields.of[opcode][1:]:  # the first one is the opcode
        value = getattr(instruction, field.name)
        if value not in field.range:
            word |= _odd(instruction, field, value, revision) << field.low
        else:
            word |= (value & field.mask) << field.low
    return word


def _odd(instruction: Instruction, field: Field, value: int, revision: int) -> int:
    """Return the bits to write for a value outside its field's range; raise an EncodingError if none fit."""
    if isinstance(instruction, Store) and field.name == "memory":
        return 0  # hardware of revision 1 ignores the field
    name = type(instruction).__name__.upper()
    if field.name in ("memory", "op"):
        raise EncodingError(
            f"{name} {Sram(value).name if field.name == 'memory' else 'MUL'} has no encoding in revision "
            f"{revision}",
            "use a configuration with HW_VER 0.0.2",
        )
    raise EncodingError(
        f"{name}: {field.name} {value} does not fit into {counted(field.width, 'bit')}",
        f"at least {field.range[0]} and at most {field.range[-1]} fits",
    )
