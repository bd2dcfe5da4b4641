"""Encodes and decodes instructions and micro-ops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from toolchain.errors import ToolchainError, UsageError
from toolchain.quantities import counted
from toolchain.vta.design import BITS_OF_INSTRUCTION, Sram, VtaConfig
from toolchain.vta.isa.fields import Field, Fields, fields_of
from toolchain.vta.isa.instructions import FLAGS, Alu, AluOp, Finish, Gemm, Instruction, Load, Opcode, Store

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


# Decodes instructions. Bits that no encoder writes are refused: a mistake, or another revision.

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
    instructions: list[Instruction] = []
    for start in range(0, len(data), INSTRUCTION_BYTES):
        word = int.from_bytes(data[start : start + INSTRUCTION_BYTES], "little")
        try:
            instructions.append(_decode(word, fields, revision))
        except UsageError as error:
            raise UsageError(f"instruction {len(instructions)}: {error.message}", error.hint) from error
    return instructions


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


# Encodes and decodes arrays of micro-ops; a GEMM or ALU instruction executes hundreds of them.


def pack_micro_ops(
    dst: npt.ArrayLike, src: npt.ArrayLike, wgt: npt.ArrayLike = 0, *, config: VtaConfig
) -> npt.NDArray[np.uint32]:
    """Encode micro-ops as they are stored in memory.

    Parameters
    ----------
    dst, src, wgt
        Indices into ACC, into INP (GEMM) or ACC (ALU), and into WGT (GEMM; 0 for ALU). Arrays or numbers
        that numpy can broadcast to one shape.

    Raises
    ------
    EncodingError
        An index does not fit; the message names it and the first value that does not fit.
    """
    words: npt.NDArray[Any] = np.zeros((), dtype=np.int64)
    low = 0
    indices = {"dst": dst, "src": src, "wgt": wgt}
    for name, width in zip(indices, fields_of(config).micro_op, strict=True):
        values = np.asarray(indices[name], dtype=np.int64)
        wrong = values[(values < 0) | (values >> width != 0)]
        if wrong.size:
            raise EncodingError(
                f"a micro-op's {name} {int(wrong.flat[0])} does not fit into {counted(width, 'bit')}",
                f"at most {(1 << width) - 1} fits",
            )
        words = words | values << low
        low += width
    return words.astype("<u4").reshape(-1)


def unpack_micro_ops(
    words: npt.NDArray[np.uint32], config: VtaConfig
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Decode micro-ops; return `dst`, `src` and `wgt`."""
    wide = words.astype(np.int64)
    dst, src, wgt = fields_of(config).micro_op
    return (
        wide & (1 << dst) - 1,
        wide >> dst & (1 << src) - 1,
        wide >> dst + src & (1 << wgt) - 1,
    )
