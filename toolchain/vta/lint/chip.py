"""What lies in the buffers while a program runs, as far as the rules ask: values are not computed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from toolchain.vta.config import HAZARD_STEPS, Memory, VtaConfig
from toolchain.vta.isa.instructions import Alu, AluOp, Gemm, Instruction, Load, Store
from toolchain.vta.isa.micro_ops import unpack_micro_ops
from toolchain.vta.lint.arena import Arena
from toolchain.vta.lint.problem import Finder

MOST_STEPS = 2**22
"""Of one instruction; those of a network have some 100 000."""
MOST_STEPS_OF_PROGRAM = 2**28

_Indices = npt.NDArray[np.int64]


class _Out(IntEnum):
    """What OUT holds where ACC was touched last."""

    NOTHING = 0
    VALID = 1
    LOADED = 2
    RESET = 3


_WHY = {
    _Out.NOTHING: "nothing was computed there",
    _Out.LOADED: "ACC was only loaded there",
    _Out.RESET: "ACC was only reset there",
}
_COMPUTED = -1  # no bytes of memory are what an element of ACC holds


class Chip:
    """The buffers of a run, instruction after instruction.

    Parameters
    ----------
    arena
        The memory before the run. Bytes that the program stores are known as such, not by their values.
    """

    def __init__(self, finder: Finder, config: VtaConfig, arena: Arena) -> None:
        self._finder = finder
        self._config = config
        self._arena = arena
        self._depth = {memory: buffer.depth for memory, buffer in config.buffers.items()}
        uops = self._depth[Memory.UOP]
        self._uop_loaded = np.zeros(uops, dtype=bool)
        self._uop = np.zeros((3, uops), dtype=np.int64)
        self._out = np.zeros(self._depth[Memory.ACC], dtype=np.uint8)
        self._from = np.full(self._depth[Memory.ACC], _COMPUTED, dtype=np.int64)
        self._stored = np.zeros(arena.data.size, dtype=bool)
        self._steps = 0

    def run(self, program: Sequence[Instruction], order: Sequence[int]) -> None:
        """Go through the instructions in that order and note what rules they break."""
        for index in order:
            instruction = program[index]
            if isinstance(instruction, Load | Store) and not (instruction.y_size and instruction.x_size):
                continue  # a NOP, or what is a problem already
            match instruction:
                case Load():
                    self._load(index, instruction)
                case Store():
                    self._store(index, instruction)
                case Gemm() | Alu():
                    self._compute(index, instruction)

    def _fits(self, index: int, memory: Memory, last: int) -> bool:
        depth = self._depth[memory]
        if last >= depth:
            reason = f"it reaches element {last} of {memory.name}, which has {depth}"
            self._finder.add("bounds", index, reason)
        return last < depth

    def _load(self, index: int, load: Load) -> None:
        columns = load.x_pad_0 + load.x_size + load.x_pad_1
        cells = (load.y_pad_0 + load.y_size + load.y_pad_1) * columns
        fits = self._fits(index, load.memory, load.sram_base + cells - 1)
        if not self._arena.holds(self._finder, index, load) or not fits:
            return
        where = slice(load.sram_base, load.sram_base + cells)
        if load.memory is Memory.UOP:
            self._load_micro_ops(index, load)
        elif load.memory in (Memory.ACC, Memory.ACC_8BIT):
            self._out[where] = _Out.LOADED
            self._from[where] = _COMPUTED
            if load.memory is Memory.ACC:
                self._remember(load, columns)

    def _load_micro_ops(self, index: int, load: Load) -> None:
        for begin, end in list(self._arena.rows(load))[:1]:
            if self._stored[begin:end].any():
                reason = "the program itself stored the micro-ops that it loads; they are not looked at"
                self._finder.add("undefined", index, reason)
                return
            where = slice(load.sram_base, load.sram_base + load.x_size)
            words = self._arena.data[begin:end].view("<u4")
            self._uop[:, where] = unpack_micro_ops(words, self._config)
            self._uop_loaded[where] = True

    def _remember(self, load: Load, columns: int) -> None:
        """Note which bytes of the memory elements of ACC hold."""
        element = self._config.buffers[Memory.ACC].element_bytes
        for y, (begin, end) in enumerate(self._arena.rows(load)):
            first = load.sram_base + (load.y_pad_0 + y) * columns + load.x_pad_0
            if not self._stored[begin:end].any():
                self._from[first : first + load.x_size] = np.arange(begin, end, element)

    def _store(self, index: int, store: Store) -> None:
        cells = store.y_size * store.x_size
        inside = self._arena.holds(self._finder, index, store)
        if not self._fits(index, Memory.OUT, store.sram_base + cells - 1):
            return
        for begin, end in self._arena.rows(store) if inside else ():
            self._stored[begin:end] = True
        states = self._out[store.sram_base : store.sram_base + cells]
        stale = np.flatnonzero(states != _Out.VALID)
        if stale.size:
            why = _WHY[_Out(int(states[stale[0]]))]
            reason = f"element {store.sram_base + int(stale[0])} of OUT has no defined value: {why}; "
            self._finder.add("stale-out", index, reason + "let ALU touch it, such as ADD 0")

    def _compute(self, index: int, loops: Gemm | Alu) -> None:
        uops = slice(loops.uop_bgn, loops.uop_end)
        steps = max(loops.uop_end - loops.uop_bgn, 0) * loops.iter_out * loops.iter_in
        self._steps += steps
        if not steps or not self._fits(index, Memory.UOP, loops.uop_end - 1):
            return
        if steps > MOST_STEPS or self._steps > MOST_STEPS_OF_PROGRAM:
            self._finder.add("bounds", index, f"with {steps} steps it is more than is looked at")
            return
        if not self._uop_loaded[uops].all():
            first = loops.uop_bgn + int(np.argmin(self._uop_loaded[uops]))
            self._finder.add("undefined", index, f"micro-op {first} was not loaded")
            return
        dst, src, wgt = self._uop[:, uops]
        to = _walk(dst, loops, loops.dst_factor_out, loops.dst_factor_in)
        at = _walk(src, loops, loops.src_factor_out, loops.src_factor_in)
        if not self._fits(index, Memory.ACC, int(to.max())):
            return
        self._hazards(index, to, to)
        if isinstance(loops, Gemm):
            if not loops.reset:
                self._fits(index, Memory.INP, int(at.max()))
                weights = _walk(wgt, loops, loops.wgt_factor_out, loops.wgt_factor_in)
                self._fits(index, Memory.WGT, int(weights.max()))
            self._out[to] = _Out.RESET if loops.reset else _Out.VALID
        else:
            self._operands(index, loops, to, at, dst, src)
            self._out[to] = _Out.VALID
        self._from[to] = _COMPUTED

    def _operands(
        self, index: int, alu: Alu, to: _Indices, at: _Indices, dst: _Indices, src: _Indices
    ) -> None:
        """Note what an ALU instruction does wrong with what it reads."""
        if alu.use_imm:
            odd = np.flatnonzero(dst != src)
            if odd.size:
                which, first = alu.uop_bgn + int(odd[0]), int(odd[0])
                reason = f"micro-op {which} has dst {dst[first]} and src {src[first]}: "
                self._finder.add("immediate", index, reason + "implementations read ACC at either")
        elif self._fits(index, Memory.ACC, int(at.max())):
            self._hazards(index, to, at)
            if alu.op is AluOp.SHR:
                self._amounts(index, np.unique(at))

    def _hazards(self, index: int, written: _Indices, used: _Indices) -> None:
        for distance in range(1, min(HAZARD_STEPS, written.size)):
            again = np.flatnonzero(used[distance:] == written[:-distance])
            if again.size:
                reason = f"element {written[again[0]]} of ACC is used again after {distance} steps; "
                self._finder.add("hazard", index, f"{reason}{HAZARD_STEPS} are needed")
                return

    def _amounts(self, index: int, elements: _Indices) -> None:
        """Look at the lanes by which elements are shifted, where they are still as they were loaded."""
        begins = self._from[elements]
        known = np.flatnonzero(begins != _COMPUTED)
        if not known.size:
            return
        size = self._config.buffers[Memory.ACC].element_bytes
        lanes = self._arena.data[begins[known][:, None] + np.arange(size)].view("<i4")
        wrong = np.argwhere((lanes < 0) | (lanes > 15))
        if wrong.size:
            row, lane = wrong[0]
            reason = f"lane {lane} of element {elements[known[row]]} of ACC shifts by {lanes[row, lane]}"
            self._finder.add("shift", index, f"{reason}; a tensor shifts by 0 to 15")


def _walk(indices: _Indices, loops: Gemm | Alu, outer: int, inner: int) -> _Indices:
    """Return what a micro-op's index becomes in each step, in the order of the steps."""
    out = np.arange(loops.iter_out, dtype=np.int64)[:, None, None] * outer
    turns = np.arange(loops.iter_in, dtype=np.int64)[:, None] * inner
    return (out + turns + indices).reshape(-1)
