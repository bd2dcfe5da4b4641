"""VTA's instructions and micro-ops, with encoders and decoders for both revisions."""

from toolchain.vta.isa.encode import (
    INSTRUCTION_BYTES,
    EncodingError,
    decode,
    decode_program,
    encode,
    encode_program,
    pack_micro_ops,
    unpack_micro_ops,
)
from toolchain.vta.isa.instructions import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    Opcode,
    PipelineStage,
    Store,
    is_nop,
    nop,
)

__all__ = [
    "INSTRUCTION_BYTES",
    "Alu",
    "AluOp",
    "EncodingError",
    "Finish",
    "Gemm",
    "Instruction",
    "Load",
    "Opcode",
    "PipelineStage",
    "Store",
    "decode",
    "decode_program",
    "encode",
    "encode_program",
    "is_nop",
    "nop",
    "pack_micro_ops",
    "unpack_micro_ops",
]
