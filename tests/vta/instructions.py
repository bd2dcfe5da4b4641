"""Any instructions that have an encoding."""

from __future__ import annotations

from hypothesis import strategies as st

from toolchain.vta.design import Sram
from toolchain.vta.isa import Alu, AluOp, Finish, Gemm, Instruction, Load, Store


def _bits(width: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << width) - 1)


def instructions(revision: int = 2) -> st.SearchStrategy[Instruction]:
    """Return any instruction for the sample configurations."""
    flags = {name: st.booleans() for name in ("pop_prev", "pop_next", "push_prev", "push_next")}
    moved = {
        "sram_base": _bits(16),
        "dram_base": _bits(32),
        **{name: _bits(16) for name in ("y_size", "x_size", "x_stride")},
        **{name: _bits(4) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")},
        **flags,
    }
    loops = {
        "uop_bgn": _bits(13),
        **{name: _bits(14) for name in ("uop_end", "iter_out", "iter_in")},
        **{f"{to}_factor_{which}": _bits(11) for to in ("dst", "src") for which in ("out", "in")},
        **flags,
    }
    wgt = {"wgt_factor_out": _bits(10), "wgt_factor_in": _bits(10)}
    memories = [Sram.UOP, Sram.WGT, Sram.INP, Sram.ACC]
    ops = [AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR]
    if revision > 1:
        memories.append(Sram.ACC_8BIT)
        ops.append(AluOp.MUL)
    return st.one_of(
        st.builds(Load, memory=st.sampled_from(memories), **moved),
        st.builds(Store, **moved),
        st.builds(Gemm, reset=st.booleans(), **loops, **wgt),
        st.builds(
            Alu,
            op=st.sampled_from(ops),
            use_imm=st.booleans(),
            imm=st.integers(-(1 << 15), (1 << 15) - 1),
            **loops,
        ),
        st.builds(Finish, **flags),
    )
