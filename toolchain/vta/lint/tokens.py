"""Follows the tokens of a program: whether it ends, and an order in which it may run.

Only tokens order the stages, since instructions may take any time. So each stage has a vector clock: how many
instructions of every stage have certainly ended. An instruction that pops a token merges the clock of the
instruction that pushed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from toolchain.quantities import counted
from toolchain.vta.design import MOST_TOKENS, QUEUE_INSTRUCTIONS
from toolchain.vta.isa.instructions import Finish, Instruction, PipelineStage, text_of
from toolchain.vta.lint.rules import Finder

# Finds races: elements that two stages use without a token that orders a write and a read.

Known = tuple[int, int, int]
"""Numbers of instructions of each stage that have certainly ended."""


class Executed(NamedTuple):
    """An instruction in a run.

    Attributes
    ----------
    at
        Its index in the program.
    number
        Its number in its stage, counted from 1.
    known
        Numbers of instructions that have certainly ended when it begins.
    """

    at: int
    number: int
    known: Known


class Race(NamedTuple):
    """An element, and the number of the other stage's instruction that uses it at the same time."""

    element: int
    other: int


class Shared:
    """Elements that one stage writes and another reads, with the last instructions that did so."""

    def __init__(self, size: int, writer: PipelineStage, reader: PipelineStage) -> None:
        self.writer, self.reader = writer, reader
        self.written = np.zeros(size, dtype=np.int32)
        self._read = np.zeros(size, dtype=np.int32)

    def write(self, where: slice | npt.NDArray[Any], turn: Executed) -> Race | None:
        """Note a write; return an element that the reader may read at the same time, or None."""
        race = _later(self._read, where, turn.known[self.reader])
        self.written[where] = turn.number
        return race

    def read(self, where: slice | npt.NDArray[Any], turn: Executed) -> Race | None:
        """Note a read; return an element that the writer may write at the same time, or None."""
        race = _later(self.written, where, turn.known[self.writer])
        self._read[where] = turn.number
        return race

    def undefined(self, where: slice | npt.NDArray[Any]) -> int | None:
        """Return the first of these elements that was never written, or None."""
        empty = np.flatnonzero(self.written[where] == 0)
        return None if not empty.size else _element(where, int(empty[0]))


def _later(numbers: npt.NDArray[np.int32], where: slice | npt.NDArray[Any], ended: int) -> Race | None:
    late = np.flatnonzero(numbers[where] > ended)
    if not late.size:
        return None
    element = _element(where, int(late[0]))
    return Race(element, int(numbers[element]))


def _element(where: slice | npt.NDArray[Any], place: int) -> int:
    return int(where.start) + place if isinstance(where, slice) else int(where[place])


class _Link(NamedTuple):
    """A queue of tokens from one stage to another, with the flags that push and pop."""

    name: str
    giver: PipelineStage
    push: str
    taker: PipelineStage
    pop: str


_LINKS = (
    _Link("L2G", PipelineStage.LOAD, "push_next", PipelineStage.COMPUTE, "pop_prev"),
    _Link("G2L", PipelineStage.COMPUTE, "push_prev", PipelineStage.LOAD, "pop_next"),
    _Link("G2S", PipelineStage.COMPUTE, "push_next", PipelineStage.STORE, "pop_prev"),
    _Link("S2G", PipelineStage.STORE, "push_prev", PipelineStage.COMPUTE, "pop_next"),
)


class _Tokens:
    """The tokens of one queue: what was known when each was pushed, and how many were popped."""

    def __init__(self, link: _Link, program: Sequence[Instruction], of_taker: Sequence[int]) -> None:
        self.link = link
        self.known: list[Known] = []
        self.taken = 0
        self.most_waiting = 0
        self.taken_by = [0]  # the taker's first n instructions
        for index in of_taker:
            self.taken_by.append(self.taken_by[-1] + getattr(program[index], link.pop))


class Order:
    """A run of a program that ignores time.

    Attributes
    ----------
    ran
        Instructions in an order in which they may run; not all of them if there is a deadlock.
    """

    def __init__(self, program: Sequence[Instruction], capacity: int = QUEUE_INSTRUCTIONS) -> None:
        self.program = program
        self.ran: list[Executed] = []
        self.at_finish: Known | None = None
        self.fetched = 0
        self._capacity = capacity
        self.stages: dict[PipelineStage, list[int]] = {stage: [] for stage in PipelineStage}
        for index, instruction in enumerate(program):
            self.stages[instruction.stage].append(index)
        self.begun = dict.fromkeys(PipelineStage, 0)
        self._fetched = dict.fromkeys(PipelineStage, 0)
        self._clocks: dict[PipelineStage, Known] = dict.fromkeys(PipelineStage, (0, 0, 0))
        self.tokens = [_Tokens(link, program, self.stages[link.taker]) for link in _LINKS]
        self._gives = {stage: [t for t in self.tokens if t.link.giver is stage] for stage in PipelineStage}
        self._takes = {stage: [t for t in self.tokens if t.link.taker is stage] for stage in PipelineStage}
        while self._fetch() | any([self._run(stage) for stage in PipelineStage]):
            pass

    def _fetch(self) -> bool:
        before = self.fetched
        while self.fetched < len(self.program):
            stage = self.program[self.fetched].stage
            if self._fetched[stage] - self.begun[stage] >= self._capacity:
                break
            self._fetched[stage] += 1
            self.fetched += 1
        return self.fetched > before

    def _run(self, stage: PipelineStage) -> bool:
        """Run instructions of a stage until one waits; return whether any ran."""
        begin = self.begun[stage]
        queue = self.stages[stage]
        while self.begun[stage] < self._fetched[stage]:
            index = queue[self.begun[stage]]
            instruction = self.program[index]
            popped = [tokens for tokens in self._takes[stage] if getattr(instruction, tokens.link.pop)]
            if any(tokens.taken == len(tokens.known) for tokens in popped):
                break
            a, b, c = self._clocks[stage]
            for tokens in popped:
                d, e, f = tokens.known[tokens.taken]
                tokens.taken += 1
                a, b, c = max(a, d), max(b, e), max(c, f)
            self._end(index, instruction, stage, [a, b, c])
        return self.begun[stage] > begin

    def _end(self, index: int, instruction: Instruction, stage: PipelineStage, known: list[int]) -> None:
        before = (known[0], known[1], known[2])
        if isinstance(instruction, Finish):
            self.at_finish = before
        self.begun[stage] += 1
        self.ran.append(Executed(index, self.begun[stage], before))
        known[stage] = self.begun[stage]
        clock = self._clocks[stage] = (known[0], known[1], known[2])
        for tokens in self._gives[stage]:
            if getattr(instruction, tokens.link.push):
                tokens.known.append(clock)
                # The largest number that may wait, if the popping stage is as late as possible.
                waiting = len(tokens.known) - tokens.taken_by[clock[tokens.link.taker]]
                tokens.most_waiting = max(tokens.most_waiting, waiting)


def check_tokens(finder: Finder, order: Order) -> None:
    """Add the broken rules about tokens and FINISH."""
    program = order.program
    _finish(finder, order)
    if len(order.ran) < len(program):
        wide = Order(program, capacity=len(program))
        rule = "deadlock" if len(wide.ran) < len(program) else "look-ahead"
        for stage in PipelineStage:
            _stuck(finder, wide if rule == "deadlock" else order, stage, rule)
        return
    for tokens in order.tokens:
        name, left = tokens.link.name, len(tokens.known) - tokens.taken
        if left:
            finder.add(
                "tokens",
                None,
                f"{counted(left, 'token')} of {name} left at the end, which the next run takes",
            )
        if tokens.most_waiting > MOST_TOKENS:
            reason = f"up to {tokens.most_waiting} tokens of {name} may wait, and {MOST_TOKENS} are counted"
            finder.add("tokens", None, reason)


def _stuck(finder: Finder, order: Order, stage: PipelineStage, rule: str) -> None:
    """Add the instruction of a stage that waits forever, and what it waits for."""
    queue, begun = order.stages[stage], order.begun[stage]
    if begun == len(queue):
        return
    instruction = order.program[queue[begun]]
    for tokens in order.tokens:
        link = tokens.link
        if link.taker is not stage or not getattr(instruction, link.pop) or tokens.taken < len(tokens.known):
            continue
        later = order.stages[link.giver][order.begun[link.giver] :]
        gives = next((index for index in later if getattr(order.program[index], link.push)), None)
        reason = f"it waits for a token of {link.name}, of which {len(tokens.known)} were given; "
        if gives is None:
            reason += f"no later instruction of {link.giver.name.lower()} gives one"
        else:
            reason += f"instruction {gives} ({text_of(order.program[gives])}) would give the next"
        if rule == "look-ahead" and order.fetched < len(order.program):
            full = order.program[order.fetched].stage.name.lower()
            reason += (
                f", but {QUEUE_INSTRUCTIONS} instructions of {full} wait before instruction {order.fetched}"
            )
        finder.add(rule, queue[begun], reason)


def _finish(finder: Finder, order: Order) -> None:
    program = order.program
    ends = [index for index, instruction in enumerate(program) if isinstance(instruction, Finish)]
    for index in ends:
        if index != len(program) - 1:
            finder.add(
                "finish",
                index,
                f"{counted(len(program) - 1 - index, 'instruction comes', 'instructions come')} after it",
            )
    if not ends:
        finder.add("finish", None, "there is no FINISH: nothing would tell that the program has ended")
        return
    for stage in (PipelineStage.LOAD, PipelineStage.STORE):
        if order.at_finish is not None and order.at_finish[stage] < len(order.stages[stage]):
            late = order.stages[stage][-1]
            reason = f"instruction {late} ({text_of(program[late])}) may not have ended: compute waited for "
            finder.add("finish", ends[-1], f"{reason}no token that {stage.name.lower()} gave after it")
