"""Decodes instructions. Bits that no encoder writes are refused: a mistake, or another revision."""

from __future__ import annotations

from typing import Any

from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.vta.design.config import Sram, VtaConfig
from toolchain.vta.isa.encode import INSTRUCTION_BYTES
from toolchain.vta.isa.fields import Fields, fields_of
from toolchain.vta.isa.instructions import FLAGS, Alu, AluOp, Finish, Gemm, Instruction, Load, Opcode, Store

_OPCODE = 7
_BOOLS = frozenset((*FLAGS, "reset", "use_imm"))
_NUMBERS = {int(opcode) for opcode in Opcode}
_OPERATIONS = {int(op) for op in AluOp}
_LOADED = {int(memory) for memory in Sram} - {int(Sram.OUT)}
_KINDS: dict[Opcode, type[Any]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.ALU: Alu,
    Opcode.FINISH: Finish,
}


def decode(word: int, config: VtaConfig) -> Instruction:
    """Decode the 128 bits of an instruction.

    Raises
    ------
    UsageError
        They are not a valid instruction in the configuration's revision.
    """
    return _decode(word, fields_of(config), config.isa_rev)


def decode_program(data: bytes, config: VtaConfig) -> list[Instruction]:
    """Decode a program.

    Raises
    ------
    UsageError
        The data are empty or truncated, or an instruction is invalid; the message names its index.
    """
    if not data or len(data) % INSTRUCTION_BYTES:
        raise UsageError(
            f"a program has a whole number of instructions of {INSTRUCTION_BYTES} bytes; "
            f"this one has {counted(len(data), 'byte')}",
            "it was truncated, or it is not a program: write it again",
        )
    fields, revision = fields_of(config), config.isa_rev
    found: list[Instruction] = []
    for start in range(0, len(data), INSTRUCTION_BYTES):
        word = int.from_bytes(data[start : start + INSTRUCTION_BYTES], "little")
        try:
            found.append(_decode(word, fields, revision))
        except UsageError as error:
            raise UsageError(f"instruction {len(found)}: {error.message}", error.hint) from error
    return found


def _decode(word: int, fields: Fields, revision: int) -> Instruction:
    number = word & _OPCODE
    if number not in _NUMBERS:
        raise _refused(word, f"there is no opcode {number}", revision)
    opcode = Opcode(number)
    if odd := word & fields.reserved[opcode]:
        bits = [str(bit) for bit in range(odd.bit_length()) if odd >> bit & 1]
        raise _refused(word, f"bits of {opcode.name} that must be zero are set: {', '.join(bits)}", revision)
    values: dict[str, Any] = {}
    for field in fields.of[opcode][1:]:
        value: Any = word >> field.low & field.mask
        if field.signed and value not in field.range:
            value -= 1 << field.width
        values[field.name] = bool(value) if field.name in _BOOLS else value
    if opcode in (Opcode.LOAD, Opcode.STORE):
        _memory(word, opcode, values, revision)
    elif opcode is Opcode.ALU:
        if values["op"] not in _OPERATIONS:
            raise _refused(word, f"ALU has no operation {values['op']}", revision)
        values["op"] = AluOp(values["op"])
    instruction: Instruction = _KINDS[opcode](**values)
    return instruction


def _memory(word: int, opcode: Opcode, values: dict[str, Any], revision: int) -> None:
    number = values["memory"]
    if opcode is Opcode.STORE:
        if number != Sram.OUT and revision > 1:
            reason = f"STORE of memory type {number}; only OUT ({int(Sram.OUT)}) is stored"
            raise _refused(word, reason, revision)
        del values["memory"]
    elif number not in _LOADED:
        raise _refused(word, f"LOAD of memory type {number}, which cannot be loaded", revision)
    else:
        values["memory"] = Sram(number)


def _refused(word: int, reason: str, revision: int) -> UsageError:
    return UsageError(
        f"{word >> 64:016x} {word & (1 << 64) - 1:016x} is no instruction of revision {revision}: {reason}",
        f"revisions encode differently: `toolchain vta disasm PATH --isa-rev {3 - revision}` shows it as the "
        "other one; else write the program again",
    )
