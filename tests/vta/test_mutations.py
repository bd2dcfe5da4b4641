"""Programs with flipped bits: each is refused or judged, and never a traceback."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.vta.programs import CONFIG, END, good
from toolchain.errors import UsageError
from toolchain.vta.isa import decode_program, encode_program
from toolchain.vta.isa.instructions import disassemble
from toolchain.vta.lint import problems

DUMP = good().dump()


@given(
    st.lists(st.integers(0, len(DUMP.program) * 8 - 1), min_size=1, max_size=4),
    st.lists(st.integers(0, END * 8 - 1), max_size=4),
)
def test_flipped_bits_are_refused_or_run(in_program: list[int], in_memory: list[int]) -> None:
    data, memory = bytearray(DUMP.program), bytearray(DUMP.before)
    for changed, bits in ((data, in_program), (memory, in_memory)):
        for bit in bits:
            changed[bit // 8] ^= 1 << bit % 8
    try:
        program = decode_program(bytes(data), CONFIG)
    except UsageError as error:
        assert error.message.startswith("instruction ")
        return
    assert len(disassemble(program)) == len(program)
    assert all(str(problem) for problem in problems(program, bytes(memory), DUMP.phys_base, CONFIG))
    assert decode_program(encode_program(program, CONFIG), CONFIG) == program
