"""Our encoder beside C's: structures of bit fields, in the order and widths of upstream's header."""

from __future__ import annotations

import ctypes
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.instructions import instructions
from toolchain.vta.design import SAMPLES, VtaConfig
from toolchain.vta.isa import Alu, Finish, Gemm, Instruction, Load, Store, encode, pack_micro_ops

PYNQ = SAMPLES["pynq"]
DESIGNS = {
    "pynq": PYNQ,
    "revision 1": replace(PYNQ, hw_ver="0.0.1"),
    "small": replace(PYNQ, log_inp_buff_size=14, log_acc_buff_size=16, log_wgt_buff_size=17),
    "batch of 2": replace(PYNQ, log_batch=1, log_uop_buff_size=14),
}
HEAD = {"opcode": 3, "pop_prev": 1, "pop_next": 1, "push_prev": 1, "push_next": 1}
OPCODES: dict[type[Any], int] = {Load: 0, Store: 1, Gemm: 2, Finish: 3, Alu: 4}


def widths(kind: type[Any], design: VtaConfig) -> dict[str, int]:
    """Return fields and widths by upstream's formulas."""
    acc = design.log_acc_buff_size - design.log_batch - design.log_block - 2
    inp = design.log_inp_buff_size - design.log_batch - design.log_block
    wgt = design.log_wgt_buff_size - 2 * design.log_block
    uop = design.log_uop_buff_size - 2
    kinds = 2 if design.hw_ver == "0.0.1" else 3
    if kind in (Load, Store):
        sizes = {"y_size": 16, "x_size": 16, "x_stride": 16}
        pads = {"y_pad_0": 4, "y_pad_1": 4, "x_pad_0": 4, "x_pad_1": 4}
        return {**HEAD, "memory": kinds, "sram_base": 16, "dram_base": 32, **sizes, **pads}
    loops = {"reset": 1, "uop_bgn": uop, "uop_end": uop + 1, "iter_out": 14, "iter_in": 14}
    to = {"dst_factor_out": acc, "dst_factor_in": acc}
    if kind is Gemm:
        at = {"src_factor_out": inp, "src_factor_in": inp, "wgt_factor_out": wgt, "wgt_factor_in": wgt}
        return {**HEAD, **loops, **to, **at}
    if kind is Alu:
        at = {"src_factor_out": acc, "src_factor_in": acc}
        return {**HEAD, **loops, **to, **at, "op": kinds, "use_imm": 1, "imm": 16}
    return {**HEAD, "pad_0": 57, "pad_1": 64}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
@given(data=st.data())
def test_fields_match_a_c_compilers_layout(name: str, data: st.DataObject) -> None:
    design = DESIGNS[name]
    instruction: Instruction = data.draw(instructions(design.isa_rev))
    wide = widths(type(instruction), design)
    values = {field.name: getattr(instruction, field.name) for field in fields(instruction)}
    # Values are drawn for a Pynq: those of narrower fields are cut.
    cut = {key: value & (1 << wide[key]) - 1 for key, value in values.items() if key not in ("imm", "memory")}
    instruction = replace(instruction, **{key: type(values[key])(value) for key, value in cut.items()})
    structure = type("Bits", (ctypes.LittleEndianStructure,), {
        "_fields_": [(key, ctypes.c_uint64, width) for key, width in wide.items()]
    })  # fmt: skip
    bits = structure(opcode=OPCODES[type(instruction)])
    for key, value in values.items():
        setattr(bits, key, int(cut.get(key, value)))
    if isinstance(instruction, Store):
        bits.memory = 4  # in revision 1 no more than two bits of it are left
    assert bytes(bits).ljust(16, b"\0") == encode(instruction, design).to_bytes(16, "little")


@pytest.mark.parametrize("name", DESIGNS)
def test_micro_op_fields_match_a_c_compilers_layout(name: str) -> None:
    gemm = widths(Gemm, DESIGNS[name])
    wide = [gemm[f"{of}_factor_in"] for of in ("dst", "src", "wgt")]
    structure = type("Bits", (ctypes.LittleEndianStructure,), {
        "_fields_": [(key, ctypes.c_uint32, width) for key, width in zip("dsw", wide, strict=True)]
    })  # fmt: skip
    for d, s, w in ((5, 300, 17), (0, 0, 1), tuple((1 << width) - 1 for width in wide)):
        word = int.from_bytes(bytes(structure(d=d, s=s, w=w)), "little")
        assert pack_micro_ops(d, s, w, config=DESIGNS[name]).tolist() == [word]
