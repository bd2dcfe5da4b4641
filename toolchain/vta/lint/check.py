"""Checks all rules on one program."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from toolchain.quantities import counted
from toolchain.vta.design.config import HAZARD_STEPS, Sram, VtaConfig
from toolchain.vta.isa.encode import INSTRUCTION_BYTES
from toolchain.vta.isa.instructions import (
    FLAGS,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    is_nop,
    text_of,
)
from toolchain.vta.isa.micro_ops import unpack_micro_ops
from toolchain.vta.lint.arena import Arena
from toolchain.vta.lint.problem import Finder, RuleViolation
from toolchain.vta.lint.sharing import Executed, Race, Shared
from toolchain.vta.lint.tokens import Order, check_tokens

# Checks the rules that concern a single instruction.

_SHIFTS = range(-16, 16)
_BEYOND = {PipelineStage.LOAD: ("pop_prev", "push_prev"), PipelineStage.STORE: ("pop_next", "push_next")}


def check_alone(finder: Finder, index: int, instruction: Instruction, config: VtaConfig) -> None:
    """Add the rules that one instruction breaks by itself."""
    for flag in _BEYOND.get(instruction.stage, ()):
        if getattr(instruction, flag):
            finder.add("tokens", index, f"{flag} is set, and nothing is on that side of its stage")
    match instruction:
        case Load() | Store():
            if instruction.memory is Sram.ACC_8BIT:
                finder.add("memory", index, "hardware does not load int8 into ACC")
            if not is_nop(instruction):
                _moved(finder, index, instruction, config)
        case Gemm() | Alu():
            _loops(finder, index, instruction)
        case Finish():
            if any(getattr(instruction, flag) for flag in FLAGS):
                finder.add("finish", index, "it has flags; let a NOP before it take tokens")
    if isinstance(instruction, Alu):
        _alu(finder, index, instruction)


def _moved(finder: Finder, index: int, moved: Load | Store, config: VtaConfig) -> None:
    if not moved.y_size or not moved.x_size:
        reason = f"sizes are y{moved.y_size} x{moved.x_size}; either all are 0, padding too, or none"
        finder.add("trip-count", index, reason)
    if moved.memory is Sram.UOP and moved.y_size > 1:
        finder.add("memory", index, f"{moved.y_size} rows of micro-ops; hardware loads the first alone")
    if moved.y_pad_0 or moved.y_pad_1 or moved.x_pad_0 or moved.x_pad_1:
        padded = {Sram.INP} if config.isa_rev == 1 else {Sram.INP, Sram.ACC}
        if moved.memory not in padded:
            revision = f" of revision {config.isa_rev}" if moved.memory is Sram.ACC else ""
            finder.add("padding", index, f"hardware{revision} ignores padding of {moved.memory.name}")


def _loops(finder: Finder, index: int, loops: Gemm | Alu) -> None:
    if not loops.iter_out or not loops.iter_in:
        reason = f"loops are out{loops.iter_out} in{loops.iter_in}; some hardware does not stop at 0"
        finder.add("trip-count", index, reason)
    if loops.uop_bgn >= loops.uop_end:
        reason = f"{loops.uop_bgn}..{loops.uop_end} are no micro-ops; some hardware does not stop there"
        finder.add("trip-count", index, reason)


def _alu(finder: Finder, index: int, alu: Alu) -> None:
    if alu.op is AluOp.MUL:
        finder.add("alu", index, "hardware has no MUL")
    if not alu.use_imm:
        return
    if alu.op is AluOp.SHR and alu.imm not in _SHIFTS:
        finder.add("shift", index, f"{alu.imm} is not from -16 to 15: hardware keeps 5 bits of it")
    dst, src = (alu.dst_factor_out, alu.dst_factor_in), (alu.src_factor_out, alu.src_factor_in)
    if dst != src:
        reason = f"its src factors are {src}, its dst factors {dst}: implementations read ACC at either"
        finder.add("immediate", index, reason)


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
    return finder.found()
