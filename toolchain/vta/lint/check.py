"""Checks all rules on one program: runs it on a model of the buffers that knows no values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from toolchain.quantities import counted
from toolchain.vta.design import HAZARD_STEPS, MOST_BYTES, PAGE_BYTES, Sram, VtaConfig
from toolchain.vta.isa.encode import INSTRUCTION_BYTES, unpack_micro_ops
from toolchain.vta.isa.instructions import (
    Alu,
    AluOp,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    text_of,
)
from toolchain.vta.lint.rules import Finder, RuleViolation, check_alone
from toolchain.vta.lint.tokens import Executed, Order, Race, Shared, check_tokens

# The memory of a program in DRAM, and the parts of it that instructions access.


@dataclass(frozen=True)
class Arena:
    """The memory before a program runs, from a physical address on."""

    data: npt.NDArray[np.uint8]
    base: int
    config: VtaConfig

    def check(self, finder: Finder, program_bytes: int) -> None:
        """Add the rules that the memory breaks because no driver could allocate it."""
        if self.base % PAGE_BYTES:
            finder.add("arena", None, f"the memory begins at {self.base:#x}, which begins no page")
        for what, size in (("the memory has", self.data.size), ("the instructions have", program_bytes)):
            if size > MOST_BYTES:
                finder.add("arena", None, f"{what} {size} bytes; a driver gives {MOST_BYTES} at most")

    def rows(self, moved: Load | Store) -> Iterator[tuple[int, int]]:
        """Yield the offsets of each row's begin and end in the memory, in bytes."""
        element = self.config.buffers[moved.memory].element_bytes
        for y in range(moved.y_size):
            begin = (moved.dram_base + y * moved.x_stride) * element - self.base
            yield begin, begin + moved.x_size * element

    @property
    def pieces(self) -> int:
        """Number of pieces of the memory; a piece has the size of OUT's elements, which only STORE writes."""
        return self.data.size // self.piece + 1

    @property
    def piece(self) -> int:
        """Size of a piece in bytes."""
        return self.config.buffers[Sram.OUT].element_bytes

    def pieces_of(self, moved: Load | Store) -> npt.NDArray[np.int64]:
        """Return the indices of the pieces that an instruction moves, which must be inside the memory."""
        element = self.config.buffers[moved.memory].element_bytes
        rows = (moved.dram_base + np.arange(moved.y_size) * moved.x_stride) * element - self.base
        last = (rows + moved.x_size * element - 1) // self.piece
        rows //= self.piece
        pieces = rows[:, None] + np.arange((last - rows).max() + 1)
        return np.minimum(pieces, last[:, None]).reshape(-1)

    def holds(self, finder: Finder, index: int, moved: Load | Store) -> bool:
        """Return whether everything that an instruction moves is inside the memory; add a problem if not."""
        element = self.config.buffers[moved.memory].element_bytes
        begin = moved.dram_base * element
        end = begin + ((moved.y_size - 1) * moved.x_stride + moved.x_size) * element
        if begin >= self.base and end <= self.base + self.data.size:
            return True
        extent = f"{self.base:#x} to {self.base + self.data.size:#x}"
        finder.add("bounds", index, f"it moves bytes {begin:#x} to {end:#x}, and the memory is {extent}")
        return False


# Tracks the state of the buffers while a program runs, as far as rules need it, without computing values.

MOST_STEPS = 2**22
"""Largest number of steps of one instruction that is checked; those of a network have some 100 000."""
MOST_STEPS_OF_PROGRAM = 2**28

_Indices = npt.NDArray[np.int64]
_Where = slice | _Indices


class _Out(IntEnum):
    """The state of an element of OUT after the last change of the same element of ACC."""

    NOTHING = 0
    VALID = 1
    LOADED = 2
    RESET = 3


_WHY = {
    _Out.NOTHING: "nothing was computed there",
    _Out.LOADED: "ACC was only loaded there",
    _Out.RESET: "ACC was only reset there",
}
_DRAM = "DRAM"
_COMPUTED = -1  # the element of ACC is no copy of bytes of the memory


class Chip:
    """The buffers during a run of a program.

    Parameters
    ----------
    order
        An order in which the program may run.
    arena
        The memory before the run. For bytes that the program stores, only the fact is known, not the values.
    """

    def __init__(self, finder: Finder, order: Order, config: VtaConfig, arena: Arena) -> None:
        self._finder, self._order, self._config, self._arena = finder, order, config, arena
        depth = self._depth = {memory: buffer.depth for memory, buffer in config.buffers.items()}
        acc = depth[Sram.ACC]
        self._uop_loaded = np.zeros(depth[Sram.UOP], dtype=bool)
        self._uop = np.zeros((3, depth[Sram.UOP]), dtype=np.int64)
        self._inp = Shared(depth[Sram.INP], PipelineStage.LOAD, PipelineStage.COMPUTE)
        self._wgt = Shared(depth[Sram.WGT], PipelineStage.LOAD, PipelineStage.COMPUTE)
        self._out = Shared(acc, PipelineStage.COMPUTE, PipelineStage.STORE)
        self._state = np.zeros(acc, dtype=np.uint8)
        self._from = np.full(acc, _COMPUTED, dtype=np.int64)
        self._dram = {
            stage: Shared(arena.pieces, PipelineStage.STORE, stage)
            for stage in (PipelineStage.LOAD, PipelineStage.COMPUTE)
        }
        self._steps = 0

    def run(self, program: Sequence[Instruction]) -> None:
        """Go through the instructions and add the rules that they break."""
        for turn in self._order.ran:
            instruction = program[turn.at]
            if isinstance(instruction, Load | Store) and not (instruction.y_size and instruction.x_size):
                continue  # a NOP, or already a problem
            match instruction:
                case Load():
                    self._load(turn, instruction)
                case Store():
                    self._store(turn, instruction)
                case Gemm() | Alu():
                    self._compute(turn, instruction)

    def _fits(self, turn: Executed, memory: Sram, last: int) -> bool:
        depth = self._depth[memory]
        if last >= depth:
            reason = f"it reaches element {last} of {memory.name}, which has {depth}"
            self._finder.add("bounds", turn.at, reason)
        return last < depth

    def _race(
        self, turn: Executed, race: Race | None, memory: str, stage: PipelineStage, *, reads: bool
    ) -> None:
        if race is None:
            return
        other = self._order.stages[stage][race.other - 1]
        does, did = ("reads", "writes") if reads else ("writes", "reads")
        if memory == _DRAM:
            what = f"byte {race.element * self._arena.piece:#x} of the memory"
        else:
            what = f"element {race.element} of {memory}"
        reason = f"it {does} {what}, which instruction {other} ({text_of(self._order.program[other])}) {did}"
        self._finder.add("race", turn.at, f"{reason}: no token says which is first")

    def _writes(self, turn: Executed, shared: Shared, where: _Where, memory: str) -> None:
        self._race(turn, shared.write(where, turn), memory, shared.reader, reads=False)

    def _reads(self, turn: Executed, shared: Shared, where: _Where, memory: str) -> None:
        empty = shared.undefined(where)
        if empty is not None:
            self._finder.add("undefined", turn.at, f"it reads element {empty} of {memory}: nothing wrote it")
        self._race(turn, shared.read(where, turn), memory, shared.writer, reads=True)

    def _load(self, turn: Executed, load: Load) -> None:
        columns = load.x_pad_0 + load.x_size + load.x_pad_1
        cells = (load.y_pad_0 + load.y_size + load.y_pad_1) * columns
        fits = self._fits(turn, load.memory, load.sram_base + cells - 1)
        if not self._arena.holds(self._finder, turn.at, load) or not fits:
            return
        pieces = self._arena.pieces_of(load)
        dram = self._dram[load.stage]
        self._race(turn, dram.read(pieces, turn), _DRAM, PipelineStage.STORE, reads=True)
        where = slice(load.sram_base, load.sram_base + cells)
        if load.memory is Sram.UOP:
            self._load_micro_ops(turn, load, stored=bool(dram.written[pieces].any()))
        elif load.memory in (Sram.INP, Sram.WGT):
            shared = self._inp if load.memory is Sram.INP else self._wgt
            self._writes(turn, shared, where, load.memory.name)
        else:
            self._touch(turn, where, _Out.LOADED)
            if load.memory is Sram.ACC and not dram.written[pieces].any():
                self._remember(load, columns)

    def _load_micro_ops(self, turn: Executed, load: Load, *, stored: bool) -> None:
        if stored:
            reason = "the program itself stored the micro-ops that it loads; they are not looked at"
            self._finder.add("undefined", turn.at, reason)
            return
        begin, end = next(self._arena.rows(load))
        where = slice(load.sram_base, load.sram_base + load.x_size)
        self._uop[:, where] = unpack_micro_ops(self._arena.data[begin:end].view("<u4"), self._config)
        self._uop_loaded[where] = True

    def _remember(self, load: Load, columns: int) -> None:
        """Remember the bytes of the memory that elements of ACC are copies of."""
        element = self._config.buffers[Sram.ACC].element_bytes
        for y, (begin, end) in enumerate(self._arena.rows(load)):
            first = load.sram_base + (load.y_pad_0 + y) * columns + load.x_pad_0
            self._from[first : first + load.x_size] = np.arange(begin, end, element)

    def _touch(self, turn: Executed, where: _Where, state: _Out) -> None:
        """Note that elements of ACC change, and OUT with them, at least in some implementations."""
        self._writes(turn, self._out, where, "OUT")
        self._state[where] = state
        self._from[where] = _COMPUTED

    def _store(self, turn: Executed, store: Store) -> None:
        cells = store.y_size * store.x_size
        fits = self._fits(turn, Sram.OUT, store.sram_base + cells - 1)
        if not self._arena.holds(self._finder, turn.at, store) or not fits:
            return
        pieces = self._arena.pieces_of(store)
        for stage, dram in self._dram.items():
            self._race(turn, dram.write(pieces, turn), _DRAM, stage, reads=False)
        where = slice(store.sram_base, store.sram_base + cells)
        self._race(turn, self._out.read(where, turn), "OUT", PipelineStage.COMPUTE, reads=True)
        stale = np.flatnonzero(self._state[where] != _Out.VALID)
        if stale.size:
            element = store.sram_base + int(stale[0])
            reason = (
                f"element {element} of OUT has no defined value: {_WHY[_Out(int(self._state[element]))]}; "
            )
            self._finder.add("stale-out", turn.at, reason + "let ALU touch it, such as ADD 0")

    def _compute(self, turn: Executed, loops: Gemm | Alu) -> None:
        uops = slice(loops.uop_bgn, loops.uop_end)
        steps = max(loops.uop_end - loops.uop_bgn, 0) * loops.iter_out * loops.iter_in
        self._steps += steps
        if not steps or not self._fits(turn, Sram.UOP, loops.uop_end - 1):
            return
        if steps > MOST_STEPS or self._steps > MOST_STEPS_OF_PROGRAM:
            self._finder.add("bounds", turn.at, f"with {steps} steps it is more than is looked at")
            return
        if not self._uop_loaded[uops].all():
            first = loops.uop_bgn + int(np.argmin(self._uop_loaded[uops]))
            self._finder.add("undefined", turn.at, f"micro-op {first} was not loaded")
            return
        dst, src, wgt = self._uop[:, uops]
        to = _walk(dst, loops, loops.dst_factor_out, loops.dst_factor_in)
        at = _walk(src, loops, loops.src_factor_out, loops.src_factor_in)
        if not self._fits(turn, Sram.ACC, int(to.max())):
            return
        self._hazards(turn, to, to)
        reset = isinstance(loops, Gemm) and loops.reset
        if not reset:
            self._of_acc(turn, to)
        if isinstance(loops, Gemm):  # some implementations read both operands of one that resets, too
            weights = _walk(wgt, loops, loops.wgt_factor_out, loops.wgt_factor_in)
            if self._fits(turn, Sram.INP, int(at.max())) and not reset:
                self._reads(turn, self._inp, at, "INP")
            if self._fits(turn, Sram.WGT, int(weights.max())) and not reset:
                self._reads(turn, self._wgt, weights, "WGT")
        elif loops.use_imm:
            self._immediate(turn, loops, dst, src)
        elif self._fits(turn, Sram.ACC, int(at.max())):
            self._of_acc(turn, at)
            self._hazards(turn, to, at)
            if loops.op is AluOp.SHR:
                self._amounts(turn, np.unique(at))
        self._touch(turn, to, _Out.RESET if reset else _Out.VALID)

    def _of_acc(self, turn: Executed, where: _Indices) -> None:
        """Add a problem if elements of ACC are read before they are written; only compute writes them."""
        empty = self._out.undefined(where)
        if empty is not None:
            self._finder.add("undefined", turn.at, f"it reads element {empty} of ACC: nothing wrote it")

    def _immediate(self, turn: Executed, alu: Alu, dst: _Indices, src: _Indices) -> None:
        odd = np.flatnonzero(dst != src)
        if odd.size:
            which, first = alu.uop_bgn + int(odd[0]), int(odd[0])
            reason = f"micro-op {which} has dst {dst[first]} and src {src[first]}: "
            self._finder.add("immediate", turn.at, reason + "implementations read ACC at either")

    def _hazards(self, turn: Executed, written: _Indices, used: _Indices) -> None:
        for distance in range(1, min(HAZARD_STEPS, written.size)):
            again = np.flatnonzero(used[distance:] == written[:-distance])
            if again.size:
                reason = (
                    f"element {written[again[0]]} of ACC is used again after {counted(distance, 'step')}; "
                )
                self._finder.add("hazard", turn.at, f"{reason}{HAZARD_STEPS} are needed")
                return

    def _amounts(self, turn: Executed, elements: _Indices) -> None:
        """Check shift amounts in ACC that are still as they were loaded."""
        begins = self._from[elements]
        known = np.flatnonzero(begins != _COMPUTED)
        if not known.size:
            return
        size = self._config.buffers[Sram.ACC].element_bytes
        lanes = self._arena.data[begins[known][:, None] + np.arange(size)].view("<i4")
        wrong = np.argwhere((lanes < 0) | (lanes > 15))
        if wrong.size:
            row, lane = wrong[0]
            reason = f"lane {lane} of element {elements[known[row]]} of ACC shifts by {lanes[row, lane]}"
            self._finder.add("shift", turn.at, f"{reason}; a tensor shifts by 0 to 15")


def _walk(indices: _Indices, loops: Gemm | Alu, outer: int, inner: int) -> _Indices:
    """Return the index of a micro-op's operand in each step, in the order of the steps."""
    out = np.arange(loops.iter_out, dtype=np.int64)[:, None, None] * outer
    turns = np.arange(loops.iter_in, dtype=np.int64)[:, None] * inner
    return (out + turns + indices).reshape(-1)


def problems(
    program: Sequence[Instruction], memory: bytes | memoryview, phys_base: int, config: VtaConfig
) -> list[RuleViolation]:
    """Return the rules that a program breaks, in program order; an empty list if it is portable.

    Parameters
    ----------
    memory
        Content of the memory before the program runs, with micro-ops and parameters.
    phys_base
        Physical address of the memory.
    """
    finder = Finder(program)
    arena = Arena(np.frombuffer(memory, dtype=np.uint8), phys_base, config)
    arena.check(finder, len(program) * INSTRUCTION_BYTES)
    for index, instruction in enumerate(program):
        check_alone(finder, index, instruction, config)
    # Of a program with a deadlock, the instructions that can run are still checked.
    order = Order(program)
    check_tokens(finder, order)
    Chip(finder, order, config, arena).run(program)
    return finder.violations()
