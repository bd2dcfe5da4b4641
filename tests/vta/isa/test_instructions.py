"""Instructions to bits and back: the specification's vectors, and whatever else has an encoding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.instructions import instructions
from toolchain.errors import UsageError
from toolchain.quantities import counted
from toolchain.vta.design import SAMPLES, Sram, VtaConfig
from toolchain.vta.isa import (
    Alu,
    AluOp,
    EncodingError,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    decode,
    decode_program,
    encode,
    encode_program,
    nop,
    pack_micro_ops,
    unpack_micro_ops,
)
from toolchain.vta.isa.instructions import text_of

NEW = SAMPLES["pynq"]
OLD = replace(NEW, hw_ver="0.0.1")

# From the specification of the machine: text, bits 0 to 63, bits 64 to 127.
VECTORS: list[tuple[Instruction, str, int, int]] = [
    (
        Load(Sram.INP, 0x10, 0x1234, 4, 5, 16, 1, 0, 1, 2, push_next=True),
        "LOAD INP sram 0x10 dram 0x1234 y4 x5 stride16 ypad(1,0) xpad(1,2) push_next",
        0x00000048D0004140,
        0x2101001000050004,
    ),
    (
        Load(Sram.UOP, 0, 0x2000, 1, 9, 9),
        "LOAD UOP sram 0x0 dram 0x2000 y1 x9 stride9",
        0x0000008000000000,
        0x0000000900090001,
    ),
    (
        Store(7, 0x400, 2, 14, 56, pop_prev=True, push_prev=True),
        "STORE OUT sram 0x7 dram 0x400 y2 x14 stride56 pop_prev push_prev",
        0x0000001000001E29,
        0x00000038000E0002,
    ),
    (
        Gemm(3, 12, 2, 14, 0, 1, 324, 1, 9, 0, pop_prev=True, push_prev=True),
        "GEMM uop 3..12 out2 in14 dst(0,1) src(324,1) wgt(9,0) pop_prev push_prev",
        0x001C00100180032A,
        0x0000900251000800,
    ),
    (
        Alu(AluOp.SHR, 0, 1, 1, 196, 0, 1, 0, 1, use_imm=True, imm=8, push_next=True),
        "ALU SHR imm 8 uop 0..1 out1 in196 dst(0,1) src(0,1) push_next",
        0x0188000800200044,
        0x0008B00200000800,
    ),
    (
        Alu(AluOp.MAX, 0, 1, 1, 16, 0, 1, 0, 1, use_imm=True, imm=-127),
        "ALU MAX imm -127 uop 0..1 out1 in16 dst(0,1) src(0,1)",
        0x0020000800200004,
        0xFF81900200000800,
    ),
    (Finish(), "FINISH", 0x3, 0),
    (nop(PipelineStage.COMPUTE, pop_next=True), "NOP compute pop_next", 0x10, 0),
    (nop(PipelineStage.LOAD, pop_next=True), "NOP load pop_next", 0x110, 0),
]


@pytest.mark.parametrize(("instruction", "text", "low", "high"), VECTORS, ids=[v[1] for v in VECTORS])
def test_vectors_of_the_specification(instruction: Instruction, text: str, low: int, high: int) -> None:
    assert encode(instruction, NEW) == high << 64 | low
    assert decode(high << 64 | low, NEW) == instruction
    assert text_of(instruction) == text


def test_the_vector_of_a_micro_op() -> None:
    assert pack_micro_ops(5, 300, 17, config=NEW).tolist() == [0x04496005]


def test_revision_1_has_shorter_types_and_operations() -> None:
    """What the specification says of it, by hand: what comes after a shorter field lies lower."""
    load = Load(Sram.INP, 0x10, 0x1234, 4, 5, 16)
    assert encode(load, OLD) == (16 << 32 | 5 << 16 | 4) << 64 | 0x1234 << 25 | 0x10 << 9 | 2 << 7
    store = Store(7, 0x400, 2, 14, 56)  # its type, 4, has no room in 2 bits; hardware does not look at it
    assert encode(store, OLD) == (56 << 32 | 14 << 16 | 2) << 64 | 0x400 << 25 | 7 << 9 | 1
    alu = Alu(AluOp.SHR, 0, 1, 1, 1, use_imm=True, imm=-3)
    high = (-3 & 0xFFFF) << 47 | 1 << 46 | 3 << 44
    assert encode(alu, OLD) >> 64 == high
    assert encode(Gemm(0, 1, 1, 1), OLD) == encode(Gemm(0, 1, 1, 1), NEW)


@given(st.lists(instructions(), min_size=1, max_size=8))
def test_instructions_survive_encoding(program: list[Instruction]) -> None:
    assert decode_program(encode_program(program, NEW), NEW) == program


@given(instructions(revision=1))
def test_instructions_survive_encoding_in_revision_1(instruction: Instruction) -> None:
    assert decode(encode(instruction, OLD), OLD) == instruction


@given(st.integers(0, (1 << 128) - 1), st.sampled_from([NEW, OLD]))
def test_any_bits_decode_or_are_refused(word: int, config: VtaConfig) -> None:
    try:
        instruction = decode(word, config)
    except UsageError as error:
        assert f"{word >> 64:016x}" in error.message
        assert "--isa-rev" in error.hint
        return
    ignored = 0
    if isinstance(instruction, Alu):
        ignored = 1 << 7  # the bit that resets a GEMM
    elif isinstance(instruction, Store) and config == OLD:
        ignored = 3 << 7  # its type
    assert encode(instruction, config) == word & ~ignored


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (Load(Sram.INP, 1 << 16, 0, 1, 1, 1), "LOAD: sram_base 65536 does not fit into 16 bits"),
        (Load(Sram.INP, 0, -1, 1, 1, 1), "LOAD: dram_base -1 does not fit into 32 bits"),
        (Load(Sram.INP, 0, 0, 1, 1, 1, x_pad_1=16), "LOAD: x_pad_1 16 does not fit into 4 bits"),
        (Gemm(0, 1, 1 << 14, 1), "GEMM: iter_out 16384 does not fit into 14 bits"),
        (Gemm(0, 1, 1, 1, wgt_factor_in=1024), "GEMM: wgt_factor_in 1024 does not fit into 10 bits"),
        (Alu(AluOp.ADD, 0, 1, 1, 1, use_imm=True, imm=1 << 15), "ALU: imm 32768 does not fit into 16 bits"),
    ],
)
def test_value_out_of_range_names_the_field(instruction: Instruction, says: str) -> None:
    with pytest.raises(EncodingError) as raised:
        encode_program([Finish(), instruction], NEW)
    assert raised.value.message == f"instruction 1: {says}"
    assert raised.value.hint.startswith("at least ")


@pytest.mark.parametrize(
    ("instruction", "says"),
    [
        (Alu(AluOp.MUL, 0, 1, 1, 1), "ALU MUL has no encoding in revision 1"),
        (Load(Sram.ACC_8BIT, 0, 0, 1, 1, 1), "LOAD ACC_8BIT has no encoding in revision 1"),
    ],
)
def test_revision_1_refuses_newer_operations(instruction: Instruction, says: str) -> None:
    with pytest.raises(EncodingError, match=says):
        encode(instruction, OLD)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (5, "there is no opcode 5"),
        (1 << 58, "bits of LOAD that must be zero are set: 58"),
        (1 << 127 | 1 << 70 | 3, "bits of FINISH that must be zero are set: 70, 127"),
        (4 << 7, "LOAD of memory type 4"),
        (7 << 7, "LOAD of memory type 7"),
        (1, "STORE of memory type 0; only OUT (4) is stored"),
        (7 << 108 | 4, "ALU has no operation 7"),
    ],
)
def test_decoder_refuses_invalid_encodings(word: int, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        decode_program(bytes(15) + b"\0" + word.to_bytes(16, "little"), NEW)
    assert raised.value.message.startswith("instruction 1: ")
    assert says in raised.value.message


@pytest.mark.parametrize("length", [0, 1, 15, 17])
def test_refuses_a_truncated_program(length: int) -> None:
    with pytest.raises(UsageError, match=f"this one has {counted(length, 'byte')}"):
        decode_program(bytes(length), NEW)


@given(st.lists(st.tuples(st.integers(0, 2047), st.integers(0, 2047), st.integers(0, 1023)), min_size=1))
def test_micro_ops_survive_packing(indices: list[tuple[int, int, int]]) -> None:
    dst, src, wgt = np.array(indices).T
    for before, after in zip(
        (dst, src, wgt), unpack_micro_ops(pack_micro_ops(dst, src, wgt, config=NEW), NEW), strict=True
    ):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    ("indices", "says"),
    [
        (([0, 2048], 0, 0), "a micro-op's dst 2048 does not fit into 11 bits"),
        ((0, -1, 0), "a micro-op's src -1 does not fit"),
        ((0, 0, 1024), "a micro-op's wgt 1024 does not fit into 10 bits"),
    ],
)
def test_micro_op_index_out_of_range_is_named(indices: tuple[object, ...], says: str) -> None:
    with pytest.raises(EncodingError, match=says):
        pack_micro_ops(*indices, config=NEW)
