"""Strict: what one implementation of the machine gets wrong is refused, by the instruction's index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.vta import eight_vectors as of
from tests.vta.eight_vectors import EightVectors, at
from toolchain.vta.design import SAMPLES, Sram
from toolchain.vta.isa import Alu, AluOp, Finish, Gemm, Load, PipelineStage, nop, pack_micro_ops
from toolchain.vta.machine.requests import Refused, SimOptions
from toolchain.vta.machine.simulator import Outcome, Simulated, Simulator

Change = Callable[[EightVectors], None]


def run(simulator: Simulator, change: Change, strict: bool = True) -> Outcome:
    vectors = EightVectors()
    change(vectors)
    return simulator.run(vectors.program(), SimOptions(strict=strict))


def refused(simulator: Simulator, change: Change, strict: bool = True) -> Refused:
    outcome = run(simulator, change, strict)
    assert isinstance(outcome, Refused), outcome
    return outcome


def changed(index: int, **fields: object) -> Change:
    return lambda vectors: vectors.change(index, **fields)


def inserted(index: int, *instructions: object) -> Change:
    return lambda vectors: vectors.instructions.__setitem__(slice(index, index), instructions)  # type: ignore[assignment] # words too


def removed(index: int) -> Change:
    return lambda vectors: vectors.instructions.__delitem__(index)


def uops(*fields: tuple[int, int, int]) -> Change:
    def change(vectors: EightVectors) -> None:
        words = pack_micro_ops(*np.array(fields).T, config=vectors.config)
        vectors.memory[of.UOPS : of.UOPS + words.nbytes] = words.view(np.uint8)

    return change


def revision_1(*changes: Change) -> Change:
    def change(vectors: EightVectors) -> None:
        vectors.config = replace(SAMPLES["pynq"], hw_ver="0.0.1")
        for change in changes:
            change(vectors)

    return change


def test_portable_program_passes_strict(simulator: Simulator) -> None:
    vectors = EightVectors()
    outcome = simulator.run(vectors.program(), SimOptions(strict=True))
    assert isinstance(outcome, Simulated), outcome
    memory = np.frombuffer(outcome.memory or b"", np.uint8)
    stored = memory[of.OUTPUTS : of.OUTPUTS + 128].view(np.int8).reshape(8, 16)
    np.testing.assert_array_equal(stored, vectors.expected())
    untouched = np.delete(memory, np.s_[of.OUTPUTS : of.OUTPUTS + 128])
    np.testing.assert_array_equal(untouched, np.delete(vectors.memory, np.s_[of.OUTPUTS : of.OUTPUTS + 128]))


SAME = (1, 8, 0, 1, 0, 1)
# What one implementation or another gets wrong, by what breaks the rule: the rule's name, the instruction,
# words of the message.
NOT_PORTABLE: dict[str, tuple[Change, str, int, str]] = {
    "shift 16": (changed(of.MAX, op=AluOp.SHR, imm=16), "shift", of.MAX, "shift by 16"),
    "shift -17": (changed(of.MAX, op=AluOp.SHR, imm=-17), "shift", of.MAX, "shift by -17"),
    "tensor shift 16": (
        lambda vectors: vectors.parameters(range(16), [0] * 15 + [16]),
        "shift",
        of.SHR,
        "lane 15 of ACC[0] by 16",
    ),
    "tensor shift -1": (
        lambda vectors: vectors.parameters(range(16), [-1] * 16),
        "shift",
        of.SHR,
        "a tensor shifts by 0 to 15",
    ),
    "immediate with another src": (
        changed(of.MAX, uop_bgn=3, uop_end=4),
        "immediate",
        of.MAX,
        "src 50 and dst 0",
    ),
    "immediate with other factors": (changed(of.MAX, src_factor_in=0), "immediate", of.MAX, "factors"),
    "MUL": (changed(of.MAX, op=AluOp.MUL), "alu", of.MAX, "MUL"),
    "ACC_8BIT": (
        changed(of.LOAD_ACC, memory=Sram.ACC_8BIT, dram_base=at(Sram.OUT, of.PARAMETERS)),
        "memory",
        of.LOAD_ACC,
        "ACC_8BIT",
    ),
    "OUT after LOAD ACC": (
        inserted(of.STORE, Load(Sram.ACC, 3, at(Sram.ACC, of.PARAMETERS), 1, 1, 1)),
        "race",
        of.STORE + 1,
        "OUT[3]",
    ),
    "OUT after LOAD ACC, in order": (
        lambda vectors: vectors.instructions.__setitem__(
            slice(of.MIN, of.STORE),
            [
                replace(vectors.instructions[of.MIN], push_next=False),
                Load(Sram.ACC, 3, at(Sram.ACC, of.PARAMETERS), 1, 1, 1, push_next=True),
            ],
        ),
        "stale-out",
        of.STORE + 1,
        "OUT[3], which has no defined value: ACC of that index was only loaded",
    ),
    "OUT after reset": (
        lambda vectors: vectors.instructions.__setitem__(
            slice(of.MIN, of.STORE), [Gemm(0, 1, 1, 8, 0, 1, reset=True, push_next=True)]
        ),
        "stale-out",
        of.STORE,
        "only reset",
    ),
    "OUT of nothing": (changed(of.STORE, sram_base=1), "stale-out", of.STORE, "OUT[8]"),
    "padding of WGT": (changed(of.LOAD_WGT, x_pad_0=1), "padding", of.LOAD_WGT, "WGT"),
    "padding of UOP": (changed(of.LOAD_UOP, x_pad_1=1), "padding", of.LOAD_UOP, "UOP"),
    "padding of STORE": (changed(of.STORE, y_pad_1=1), "padding", of.STORE, "STORE"),
    "padding of ACC in revision 1": (
        revision_1(changed(of.LOAD_ACC, x_pad_0=1)),
        "padding",
        of.LOAD_ACC,
        "isa_rev 1",
    ),
    "rows of UOP": (changed(of.LOAD_UOP, y_size=2, x_size=2), "memory", of.LOAD_UOP, "2 rows"),
    "iter_out 0": (changed(of.GEMM, iter_out=0), "trip-count", of.GEMM, "0 x 8"),
    "iter_in 0": (changed(of.MAX, iter_in=0), "trip-count", of.MAX, "1 x 0"),
    "no micro-ops": (changed(of.GEMM, uop_bgn=1, uop_end=1), "trip-count", of.GEMM, "1 to 1"),
    "rows of nothing": (changed(of.LOAD_INP, x_size=0), "trip-count", of.LOAD_INP, "1 x 0"),
    "a NOP that pads": (
        changed(of.LOAD_INP, x_size=0, y_size=0, x_pad_0=1),
        "trip-count",
        of.LOAD_INP,
        "with padding",
    ),
    "hazard": (changed(of.GEMM, dst_factor_in=0), "hazard", of.GEMM, "ACC[0] is used again after 1 step"),
    "hazard of a source": (
        changed(of.ADD, op=AluOp.ADD, uop_bgn=0, uop_end=1, dst_factor_in=2, src_factor_in=1, iter_in=4),
        "hazard",
        of.ADD,
        "after 1 step",
    ),
    "hazard of a reset": (changed(of.RESET, dst_factor_in=0), "hazard", of.RESET, "used again"),
    "INP of a reset": (changed(of.RESET, src_factor_in=293), "bounds", of.RESET, "names INP[2051] of 2048"),
    "WGT of a reset": (changed(of.RESET, wgt_factor_in=147), "bounds", of.RESET, "names WGT[1029] of 1024"),
    "INP undefined": (changed(of.LOAD_INP, x_size=7), "undefined", of.GEMM, "INP[7]"),
    "WGT undefined": (changed(of.LOAD_WGT, sram_base=5), "undefined", of.GEMM, "WGT[0]"),
    "ACC undefined": (removed(of.RESET), "undefined", of.GEMM - 1, "ACC[0]"),
    "source undefined": (changed(of.LOAD_ACC, x_size=1), "undefined", of.SHR, "ACC[101]"),
    "UOP undefined": (changed(of.LOAD_UOP, x_size=2), "undefined", of.SHR, "micro-op 2"),
    "tokens left": (changed(of.MIN, push_prev=True), "tokens", -1, "1 token of G2L is left"),
    "FINISH before store": (
        lambda vectors: (removed(of.WAIT)(vectors), vectors.change(of.STORE, push_prev=False)),
        "finish",
        of.FINISH - 1,
        "store may still be at work",
    ),
    "FINISH before load": (
        inserted(of.WAIT, Load(Sram.INP, 30, at(Sram.INP, of.INPUTS), 1, 8, 8)),
        "finish",
        of.FINISH + 1,
        "load may still be at work",
    ),
    "FINISH with flags": (
        lambda vectors: (removed(of.WAIT)(vectors), vectors.change(of.FINISH - 1, pop_next=True)),
        "finish",
        of.FINISH - 1,
        "flags",
    ),
}


@pytest.mark.parametrize("case", NOT_PORTABLE)
def test_refuses_unportable_programs(simulator: Simulator, case: str) -> None:
    change, rule, index, words = NOT_PORTABLE[case]
    refusal = refused(simulator, change)
    assert (refusal.rule, refusal.instruction) == (rule, None if index < 0 else index), refusal
    assert words in refusal.message
    if index >= 0:
        assert refusal.message.startswith(f"instruction {index} (")


LENIENT = [case for case in NOT_PORTABLE if case not in ("padding of STORE",)]


@pytest.mark.parametrize("case", LENIENT)
def test_without_strict_runs_like_the_functional_model(simulator: Simulator, case: str) -> None:
    outcome = run(simulator, NOT_PORTABLE[case][0], strict=False)
    assert isinstance(outcome, Simulated), outcome


@pytest.mark.parametrize("base", [0, 0x1010])
def test_refuses_memory_off_a_page_boundary(simulator: Simulator, base: int) -> None:
    outcome = simulator.run(replace(EightVectors().program(), phys_base=base), SimOptions(strict=True))
    assert isinstance(outcome, Refused) and outcome.rule == "arena" and str(base) in outcome.message


def test_refuses_reserved_bits(simulator: Simulator) -> None:
    program = EightVectors().program()
    code = bytearray(program.code)
    code[16 * of.GEMM + 7] |= 0x80
    outcome = simulator.run(replace(program, code=bytes(code)), SimOptions(strict=True))
    assert isinstance(outcome, Refused) and (outcome.rule, outcome.instruction) == ("encoding", of.GEMM)


ALWAYS: dict[str, tuple[Change, str, int, str]] = {
    "INP beyond": (changed(of.LOAD_INP, sram_base=2041), "bounds", of.LOAD_INP, "2041 to 2048 of INP"),
    "padding beyond": (
        changed(of.LOAD_INP, sram_base=2040, x_pad_1=1),
        "bounds",
        of.LOAD_INP,
        "2040 to 2048",
    ),
    "many rows beyond": (changed(of.LOAD_INP, y_size=65535, x_size=65535), "bounds", of.LOAD_INP, "of INP"),
    "DRAM before": (changed(of.LOAD_INP, dram_base=0xFF), "bounds", of.LOAD_INP, "bytes 4080 to"),
    "DRAM behind": (
        changed(of.LOAD_INP, dram_base=at(Sram.INP, of.END) - 7),
        "bounds",
        of.LOAD_INP,
        "DRAM",
    ),
    "DRAM at the end of all": (changed(of.LOAD_INP, dram_base=2**32 - 1), "bounds", of.LOAD_INP, "DRAM"),
    "DRAM by the stride": (changed(of.LOAD_INP, y_size=2, x_stride=65535), "bounds", of.LOAD_INP, "DRAM"),
    "store behind": (changed(of.STORE, dram_base=at(Sram.OUT, of.END) - 7), "bounds", of.STORE, "DRAM"),
    "store of too much": (changed(of.STORE, sram_base=2041), "bounds", of.STORE, "2048 of OUT"),
    "ACC index": (changed(of.GEMM, dst_factor_in=300), "bounds", of.GEMM, "element 2100 of ACC"),
    "INP index": (changed(of.GEMM, src_factor_in=2047), "bounds", of.GEMM, "of INP"),
    "WGT index": (changed(of.GEMM, wgt_factor_in=1023), "bounds", of.GEMM, "of WGT"),
    "ALU source": (changed(of.ADD, src_factor_in=2047), "bounds", of.ADD, "of ACC"),
    "UOP index": (changed(of.GEMM, uop_end=9000), "bounds", of.GEMM, "9000 of 8192"),
    "12 steps of 10^12": (
        changed(of.GEMM, iter_out=16383, iter_in=16383, uop_end=8000),
        "too-long",
        of.GEMM,
        "more than 268435456 steps",
    ),
    "FINISH first": (inserted(0, Finish()), "finish", 0, "13 follow"),
    "no FINISH": (removed(of.FINISH), "finish", -1, "does not end with FINISH"),
    "a stage before load": (changed(of.LOAD_INP, pop_prev=True), "tokens", of.LOAD_INP, "before load"),
    "a stage after store": (changed(of.STORE, push_next=True), "tokens", of.STORE, "after store"),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("case", ALWAYS)
def test_refuses_what_no_machine_runs(simulator: Simulator, case: str, strict: bool) -> None:
    change, rule, index, words = ALWAYS[case]
    refusal = refused(simulator, change, strict)
    assert (refusal.rule, refusal.instruction) == (rule, None if index < 0 else index), refusal
    assert words in refusal.message


RACES: dict[str, tuple[Change, int, str]] = {
    "INP overwritten while compute reads": (
        inserted(of.STORE, Load(Sram.INP, 7, at(Sram.INP, of.INPUTS), 1, 1, 1)),
        -1,
        "INP[7]",
    ),
    "WGT read before it is there": (
        lambda vectors: (
            vectors.change(of.LOAD_INP, push_next=True),
            vectors.change(of.LOAD_WGT, push_next=False),
        ),
        of.GEMM,
        "WGT[0]",
    ),
    "OUT computed while it is stored": (
        inserted(of.WAIT, Alu(AluOp.MAX, 0, 1, *SAME, use_imm=True, imm=5)),
        -1,
        "OUT[0]",
    ),
    "DRAM loaded while it is stored": (
        inserted(
            of.WAIT,
            Load(Sram.INP, 40, at(Sram.INP, of.OUTPUTS), 1, 1, 1, push_next=True),
            nop(PipelineStage.COMPUTE, pop_prev=True),
        ),
        -1,
        "byte 16384 of the arena",
    ),
    "DRAM stored over while it is loaded by compute": (
        inserted(of.STORE, Load(Sram.UOP, 9, at(Sram.UOP, of.OUTPUTS + 124), 1, 1, 1)),
        -1,
        "byte 16496 of the arena",
    ),
}


@pytest.mark.parametrize("case", RACES)
def test_unordered_accesses_are_races(simulator: Simulator, case: str) -> None:
    change, index, words = RACES[case]
    refusal = refused(simulator, change)
    assert refusal.rule == "race" and words in refusal.message
    assert "no token says which is first" in refusal.message
    assert index < 0 or refusal.instruction == index


def test_deadlock_names_the_waiting_instructions(simulator: Simulator) -> None:
    refusal = refused(simulator, changed(of.LOAD_WGT, push_next=False), strict=False)
    assert (refusal.rule, refusal.instruction) == ("deadlock", of.GEMM)
    assert refusal.message == (
        "deadlock: load has no more instructions; "
        "compute waits at instruction 5 (GEMM of compute) for a token of L2G from load (0 pushed, all taken; "
        "no later instruction pushes one); "
        "store waits at instruction 10 (STORE of store) for a token of G2S from compute "
        "(0 pushed, all taken; instruction 9 (ALU MIN of compute) would push the next)"
    )


def test_refuses_waiting_for_unfetched_instructions(simulator: Simulator) -> None:
    # Compute waits for load's token, which stands behind more of compute's instructions than its queue holds.
    def late(count: int) -> Change:
        def change(vectors: EightVectors) -> None:
            load = vectors.instructions.pop(of.LOAD_WGT)
            place = vectors.instructions.index(vectors.instructions[of.GEMM - 1]) + 1
            more = [nop(PipelineStage.COMPUTE) for _ in range(count)]
            vectors.instructions[place:place] = [*more, load]

        return change

    assert isinstance(run(simulator, late(511)), Simulated)
    refusal = refused(simulator, late(512), strict=False)
    assert refusal.rule == "look-ahead"
    assert "the queue of compute holds 512 instructions" in refusal.message
    assert "load waits for fetch" in refusal.message


def test_refuses_more_tokens_than_a_queue_counts(simulator: Simulator) -> None:
    def tokens(count: int) -> Change:
        gives = [nop(PipelineStage.COMPUTE, push_prev=True) for _ in range(count)]
        takes = [nop(PipelineStage.LOAD, pop_next=True) for _ in range(count)]
        end = [nop(PipelineStage.LOAD, push_next=True), nop(PipelineStage.COMPUTE, pop_prev=True)]
        return inserted(of.WAIT, *gives, *takes, *end)

    assert isinstance(run(simulator, tokens(255)), Simulated)
    refusal = refused(simulator, tokens(256))
    assert refusal.rule == "tokens" and "up to 256 tokens wait in G2L" in refusal.message
    assert isinstance(run(simulator, tokens(256), strict=False), Simulated)


def test_refuses_a_program_of_another_revision(simulator: Simulator) -> None:
    program = EightVectors().program()
    old = replace(program, config=replace(program.config, hw_ver="0.0.1"))
    assert isinstance(simulator.run(old), Refused)


def test_store_in_revision_1(simulator: Simulator) -> None:
    outcome = run(simulator, revision_1())
    assert isinstance(outcome, Simulated)
