"""Instructions to bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.vta.design.config import BITS_OF_INSTRUCTION, Memory, VtaConfig
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
    """An instruction has a value for which its encoding has no room."""


def encode(instruction: Instruction, config: VtaConfig) -> int:
    """Return an instruction's 128 bits.

    Raises
    ------
    EncodingError
        A value does not fit; names the field and what fits.
    """
    return _encode(instruction, fields_of(config), config.isa_rev)


def encode_program(instructions: Iterable[Instruction], config: VtaConfig) -> bytes:
    """Return instructions as they lie in memory.

    Raises
    ------
    EncodingError
        A value does not fit; names the instruction's index, too.
    """
    fields, revision = fields_of(config), config.isa_rev
    words = bytearray()
    index = 0
    try:
        for index, instruction in enumerate(instructions):  # noqa: B007, it is told of below
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
    """Return the bits of a value that its field cannot hold, where there are any."""
    if isinstance(instruction, Store) and field.name == "memory":
        return 0  # hardware of revision 1 does not look at it
    name = type(instruction).__name__.upper()
    if field.name in ("memory", "op"):
        raise EncodingError(
            f"{name} {Memory(value).name if field.name == 'memory' else 'MUL'} has no encoding in revision "
            f"{revision}",
            "use a configuration with HW_VER 0.0.2",
        )
    raise EncodingError(
        f"{name}: {field.name} {value} does not fit into {field.width} bits",
        f"at least {field.range[0]} and at most {field.range[-1]} fits",
    )
