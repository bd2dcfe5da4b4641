"""Each rule of the portable subset is broken, and what is said names instruction and rule."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tests.vta.programs import BIAS, CONFIG, OUTPUTS, PARAMETERS, UOPS, Change, Program, at, good
from toolchain.vta.design import SAMPLES, Sram
from toolchain.vta.isa import Alu, AluOp, Finish, Gemm, Load, PipelineStage, nop, pack_micro_ops
from toolchain.vta.isa.instructions import text_of
from toolchain.vta.lint import RULES


def change(index: int, **changes: object) -> Change:
    return lambda program: program.change(index, **changes)


def words(offset: int, *values: int) -> Change:
    return lambda program: program.words(offset, values)


def insert(index: int, *instructions: object) -> Change:
    def put(program: Program) -> None:
        program.instructions[index:index] = instructions  # type: ignore[assignment]

    return put


def remove(index: int) -> Change:
    return lambda program: program.instructions.__delitem__(index)


def micro_op(number: int, dst: int, src: int) -> Change:
    word = int(pack_micro_ops(dst, src, config=CONFIG)[0])
    return words(UOPS + 4 * number, word)


def many(*changes: Change) -> Change:
    def all_of_them(program: Program) -> None:
        for single in changes:
            single(program)

    return all_of_them


def old(program: Program) -> None:
    program.config = replace(CONFIG, hw_ver="0.0.1")


def base(address: int) -> Change:
    def put(program: Program) -> None:
        program.base = address

    return put


def large(program: Program) -> None:
    program.memory += bytes(2**25)


def test_portable_program_breaks_no_rule() -> None:
    assert good().problems() == []


def test_revision_2_allows_padding_of_acc() -> None:
    program = good()
    program.change(5, x_pad_1=1)
    assert program.problems() == []
    old(program)
    assert [problem.rule for problem in program.problems()] == ["padding"]


# The number is the rule's in the specification, §11; 0: it says so elsewhere.
BROKEN: list[tuple[int, str, int | None, Change, str]] = [
    (1, "alu", 6, change(6, op=AluOp.MUL), "hardware has no MUL"),
    (1, "shift", 8, change(8, op=AluOp.SHR, imm=16), "16 is not from -16 to 15"),
    (1, "shift", 8, change(8, op=AluOp.SHR, imm=-17), "-17 is not from -16 to 15"),
    (1, "shift", 7, words(PARAMETERS + 64 + 4 * 3, 16), "lane 3 of element 101 of ACC shifts by 16"),
    (1, "shift", 7, words(PARAMETERS + 64, -1), "lane 0 of element 101 of ACC shifts by -1"),
    (2, "immediate", 8, change(8, src_factor_in=0), "its src factors are (0, 0), its dst factors (0, 1)"),
    (2, "immediate", 8, micro_op(0, 0, 1), "micro-op 0 has dst 0 and src 1"),
    (3, "trip-count", 4, change(4, iter_out=0), "loops are out0 in8"),
    (3, "trip-count", 4, change(4, iter_in=0), "loops are out1 in0"),
    (3, "trip-count", 4, change(4, uop_end=0), "0..0 are no micro-ops"),
    (3, "trip-count", 4, change(4, uop_bgn=2), "2..1 are no micro-ops"),
    (3, "trip-count", 1, change(1, x_size=0), "sizes are y1 x0"),
    (3, "trip-count", 1, change(1, y_size=0, x_size=0, x_pad_0=1), "sizes are y0 x0"),
    (3, "bounds", 4, change(4, uop_end=8193), "it reaches element 8192 of UOP, which has 8192"),
    (3, "bounds", 0, change(0, sram_base=8190), "it reaches element 8192 of UOP"),
    (4, "padding", 2, change(2, y_pad_0=1), "hardware ignores padding of WGT"),
    (4, "padding", 0, change(0, x_pad_1=1), "hardware ignores padding of UOP"),
    (4, "padding", 10, change(10, x_pad_0=1), "hardware ignores padding of OUT"),
    (4, "padding", 5, many(change(5, x_pad_1=1), old), "hardware of revision 1 ignores padding of ACC"),
    (4, "memory", 0, change(0, y_size=2), "2 rows of micro-ops"),
    (
        4,
        "memory",
        5,
        change(5, memory=Sram.ACC_8BIT, dram_base=at(Sram.OUT, PARAMETERS)),
        "load int8",
    ),
    (5, "stale-out", 10, change(10, x_size=9), "element 8 of OUT has no defined value: nothing was computed"),
    (5, "stale-out", 10, change(10, sram_base=BIAS, x_size=2), "ACC was only loaded there"),
    (5, "stale-out", 11, insert(10, Gemm(0, 1, 1, 8, 0, 1, reset=True, push_next=True)), "only reset there"),
    (6, "hazard", 4, change(4, iter_in=2, iter_out=4, src_factor_out=2), "again after 2 steps; 4 are needed"),
    (6, "hazard", 4, change(4, dst_factor_in=0), "element 0 of ACC is used again after 1 step;"),
    (6, "hazard", 6, micro_op(1, 0, 1), "element 1 of ACC is used again after 1 step;"),
    (7, "tokens", 2, change(2, push_prev=True), "push_prev is set, and nothing is on that side"),
    (7, "tokens", 10, change(10, pop_next=True), "pop_next is set, and nothing is on that side"),
    (7, "tokens", None, change(9, push_prev=True), "1 token of G2L left at the end"),
    (
        7,
        "deadlock",
        4,
        change(2, push_next=False),
        "waits for a token of L2G, of which 0 were given; no later",
    ),
    (7, "deadlock", 10, change(9, push_next=False), "waits for a token of G2S"),
    (8, "arena", None, base(0x1010), "the memory begins at 0x1010, which begins no page"),
    (8, "arena", None, large, "a driver gives 33554432 at most"),
    (
        8,
        "bounds",
        1,
        change(1, dram_base=0),
        "it moves bytes 0x0 to 0x80, and the memory is 0x1000 to 0x6000",
    ),
    (8, "bounds", 10, change(10, y_size=2, x_size=4, x_stride=0xFFFF), "it moves bytes 0x5000 to"),
    (9, "finish", None, remove(12), "there is no FINISH"),
    (9, "finish", 12, change(12, pop_next=True), "it has flags"),
    (9, "finish", 12, insert(13, nop(PipelineStage.COMPUTE)), "1 instruction comes after it"),
    (9, "finish", 0, insert(0, Finish()), "13 instructions come after it"),
    (9, "finish", 13, insert(10, nop(PipelineStage.LOAD)), "instruction 10 (NOP load) may not have ended"),
    (0, "undefined", 6, change(0, x_size=1), "micro-op 1 was not loaded"),
    (0, "undefined", 4, change(1, x_size=7), "it reads element 7 of INP: nothing wrote it"),
    (0, "undefined", 4, change(2, sram_base=1), "it reads element 0 of WGT: nothing wrote it"),
    (0, "undefined", 4, change(3, iter_in=7), "it reads element 7 of ACC: nothing wrote it"),
    (0, "undefined", 7, change(5, x_size=1), "it reads element 101 of ACC: nothing wrote it"),
    (0, "race", 4, many(change(2, push_next=False), change(4, pop_prev=False)), "(LOAD INP sram 0x0"),
    (0, "race", 10, many(change(9, push_next=False), change(10, pop_prev=False)), "OUT, which instruction 9"),
    (
        0,
        "race",
        10,
        insert(11, Gemm(0, 1, 1, 8, 0, 1, reset=True)),
        "reads element 0 of OUT, which instruction 11",
    ),
    (
        0,
        "race",
        10,
        insert(11, Load(Sram.INP, 100, at(Sram.INP, OUTPUTS), 1, 8, 8)),
        "it writes byte 0x4000 of the memory, which instruction 11 (LOAD INP sram 0x64 dram 0x500",
    ),
    (0, "bounds", 1, change(1, x_size=2049), "it reaches element 2048 of INP"),
    (0, "bounds", 2, change(2, sram_base=1024), "it reaches element 1024 of WGT"),
    (0, "bounds", 4, change(4, dst_factor_in=2047), "it reaches element 14329 of ACC"),
    (0, "bounds", 4, change(4, src_factor_in=2047), "it reaches element 14329 of INP"),
    (0, "bounds", 4, change(4, wgt_factor_in=1023), "it reaches element 7161 of WGT"),
    (0, "bounds", 3, change(3, src_factor_in=2047), "it reaches element 14329 of INP"),
    (0, "bounds", 3, change(3, wgt_factor_in=1023), "it reaches element 7161 of WGT"),
    (0, "bounds", 6, change(6, src_factor_in=2047), "it reaches element 14429 of ACC"),
    (0, "bounds", 10, change(10, sram_base=2047), "it reaches element 2054 of OUT"),
    (0, "bounds", 4, change(4, iter_out=16383, iter_in=16383), "steps it is more than is looked at"),
]


@pytest.mark.parametrize(("number", "rule", "index", "break_it", "says"), BROKEN)
def test_violation_names_rule_and_instruction(
    number: int, rule: str, index: int | None, break_it: Change, says: str
) -> None:
    program = good()
    break_it(program)
    violations = [
        violation for violation in program.problems() if (violation.rule, violation.index) == (rule, index)
    ]
    assert len(violations) == 1, program.problems()
    text = str(violations[0])
    assert says in text
    if index is None:
        assert text.startswith(f"program: {rule}: ")
    else:
        assert text.startswith(f"instruction {index} ({text_of(program.instructions[index])}): {rule}: ")
    assert number in range(10)


def test_every_rule_is_broken_by_a_test() -> None:
    here = {rule for _number, rule, *_rest in BROKEN}
    assert here | {"look-ahead"} == set(RULES)  # that one: test_tokens.py
    assert {number for number, *_rest in BROKEN} == set(range(10))


def test_violations_are_in_program_order() -> None:
    program = good()
    program.change(8, op=AluOp.SHR, imm=30, src_factor_in=0)
    program.change(2, y_pad_0=1)
    program.instructions.pop()
    assert [(problem.index, problem.rule) for problem in program.problems()] == [
        (2, "padding"),
        (8, "shift"),
        (8, "immediate"),
        (None, "finish"),
    ]


def test_lint_ignores_computed_shift_amounts() -> None:
    program = good()
    touch = Alu(AluOp.ADD, 2, 3, 1, 1, use_imm=True, imm=100)
    program.words(UOPS + 12, pack_micro_ops([101], [101], config=CONFIG).view("<i4"))
    program.change(0, x_size=4, x_stride=4)
    program.instructions[6:6] = [replace(touch, uop_bgn=3, uop_end=4)]
    assert program.problems() == []


def test_stored_micro_ops_count_as_undefined() -> None:
    program = good()
    over = replace(program.instructions[10], dram_base=at(Sram.OUT, UOPS), x_size=1)
    program.instructions[10] = over
    program.instructions[12:12] = [
        Load(Sram.UOP, 0, at(Sram.UOP, UOPS), 1, 3, 3),
        Gemm(0, 1, 1, 8, 0, 1, reset=True),
    ]
    assert [(violation.index, violation.rule) for violation in program.problems()] == [(12, "undefined")]


def test_oversized_store_is_out_of_bounds() -> None:
    program = good()
    program.change(10, y_size=2048, x_size=256, x_stride=0)
    tracemalloc.start()
    try:
        violations = program.problems()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(violation.index, violation.rule) for violation in violations] == [(10, "bounds")]
    assert peak < 2**21


def test_bounds_follow_the_configuration() -> None:
    program = good()
    program.config = replace(SAMPLES["pynq"], log_inp_buff_size=7 + 3, log_acc_buff_size=9 + 3)
    program.memory[:] = bytes(len(program.memory))
    assert "bounds" in {problem.rule for problem in program.problems()}
