"""Queues of tokens: what the linter says of them is what trying all orders shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vta.instructions import instructions
from tests.vta.programs import CONFIG, good
from toolchain.vta.design import MOST_TOKENS, QUEUE_INSTRUCTIONS
from toolchain.vta.isa import Finish, Instruction, PipelineStage, nop
from toolchain.vta.lint import problems
from toolchain.vta.lint.tokens import Order

QUEUES = {
    "L2G": (PipelineStage.LOAD, "push_next", PipelineStage.COMPUTE, "pop_prev"),
    "G2L": (PipelineStage.COMPUTE, "push_prev", PipelineStage.LOAD, "pop_next"),
    "G2S": (PipelineStage.COMPUTE, "push_next", PipelineStage.STORE, "pop_prev"),
    "S2G": (PipelineStage.STORE, "push_prev", PipelineStage.COMPUTE, "pop_next"),
}


def _flags(stage: PipelineStage) -> st.SearchStrategy[Instruction]:
    used = [push for giver, push, _, _ in QUEUES.values() if giver is stage]
    used += [pop for _, _, taker, pop in QUEUES.values() if taker is stage]
    return st.fixed_dictionaries({name: st.booleans() for name in used}).map(lambda f: nop(stage, **f))


PROGRAMS = st.lists(st.one_of(*(_flags(stage) for stage in PipelineStage)), max_size=9)


def every_state(program: Sequence[Instruction]) -> tuple[set[tuple[int, ...]], dict[str, int]]:
    """Try all orders; return the states where nothing can run on, and the most tokens of each queue."""
    stages = {stage: [i for i in program if i.stage is stage] for stage in PipelineStage}
    most = dict.fromkeys(QUEUES, 0)
    ends, visited = set[tuple[int, ...]](), set[tuple[int, ...]]()
    left: list[tuple[int, ...]] = [(0, 0, 0)]

    def waiting(state: tuple[int, ...], queue: str) -> int:
        giver, push, taker, pop = QUEUES[queue]
        pushed = sum(getattr(i, push) for i in stages[giver][: state[giver]])
        return pushed - sum(getattr(i, pop) for i in stages[taker][: state[taker]])

    while left:
        state = left.pop()
        if state in visited:
            continue
        visited.add(state)
        counts = {queue: waiting(state, queue) for queue in QUEUES}
        most = {queue: max(most[queue], count) for queue, count in counts.items()}
        stuck = True
        for stage in PipelineStage:
            if state[stage] == len(stages[stage]):
                continue
            head = stages[stage][state[stage]]
            if all(counts[q] or taker is not stage or not getattr(head, pop)
                   for q, (_, _, taker, pop) in QUEUES.items()):  # fmt: skip
                stuck = False
                left.append(tuple(n + (s == stage) for s, n in enumerate(state)))
        if stuck:
            ends.add(state)
    return ends, most


@given(PROGRAMS)
def test_run_ends_in_the_state_of_every_order(program: list[Instruction]) -> None:
    ends, most = every_state(program)
    order = Order(program)
    assert ends == {tuple(order.begun[stage] for stage in PipelineStage)}
    assert len(order.ran) == len(set(order.ran)) == sum(order.begun.values())
    if len(order.ran) == len(program):
        assert {tokens.link.name: tokens.most_waiting for tokens in order.tokens} == most


@given(st.lists(instructions(), min_size=1, max_size=12), st.binary(max_size=512))
def test_any_program_is_checked_without_an_error(program: list[Instruction], memory: bytes) -> None:
    for problem in problems(program, memory, 0x1000, CONFIG):
        assert str(problem)


@pytest.mark.parametrize(("between", "rules"), [(511, set()), (512, {"look-ahead"})])
def test_waiting_beyond_the_queue_is_a_look_ahead_violation(between: int, rules: set[str]) -> None:
    """Compute waits for load, and what gives the token comes after more of compute than its queue holds."""
    assert QUEUE_INSTRUCTIONS == 512
    program = [
        nop(PipelineStage.COMPUTE, pop_prev=True),
        *[nop(PipelineStage.COMPUTE)] * between,
        nop(PipelineStage.LOAD, push_next=True),
        Finish(),
    ]
    violations = problems(program, b"", 0x1000, CONFIG)
    assert {problem.rule for problem in violations} == rules
    for problem in violations:
        assert problem.index == 0
        assert "instruction 513 (NOP load push_next) would give the next" in problem.reason
        assert "512 instructions of compute wait before instruction 512" in problem.reason


@pytest.mark.parametrize(("given_first", "rules"), [(255, set()), (256, {"tokens"})])
def test_token_queues_have_a_capacity(given_first: int, rules: set[str]) -> None:
    assert MOST_TOKENS == 255
    loads, takes = nop(PipelineStage.LOAD, push_next=True), nop(PipelineStage.COMPUTE, pop_prev=True)
    violations = problems([*[loads] * given_first, *[takes] * given_first, Finish()], b"", 0x1000, CONFIG)
    assert {problem.rule for problem in violations} == rules
    assert all("up to 256 tokens of L2G may wait" in problem.reason for problem in violations)


def test_deadlock_names_both_instructions() -> None:
    program = [
        nop(PipelineStage.LOAD, pop_next=True, push_next=True),
        nop(PipelineStage.COMPUTE, pop_prev=True, push_prev=True),
        Finish(),
    ]
    first, second = problems(program, b"", 0x1000, CONFIG)
    assert (first.rule, first.index, second.rule, second.index) == ("deadlock", 0, "deadlock", 1)
    assert "waits for a token of G2L" in first.reason and "instruction 1 (NOP compute" in first.reason
    assert "waits for a token of L2G" in second.reason and "instruction 0 (NOP load" in second.reason


def test_tokens_decide_the_order_of_execution() -> None:
    """The store stands before what computes it: tokens, not the listing, say what comes first."""
    program = good()
    store = program.instructions.pop(10)
    program.instructions.insert(0, store)
    assert program.problems() == []
