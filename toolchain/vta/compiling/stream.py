"""Collects the instructions of a program, and adds the tokens that order the stages.

A token is passed if an instruction uses data that an instruction of another stage writes or reads, unless it
is already known that the other one has ended. Instructions wait only for earlier ones, so no program can
deadlock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from toolchain.vta.design import Sram, VtaConfig
from toolchain.vta.isa import Alu, Finish, Gemm, Instruction, Load, PipelineStage, Store, nop

_LOADED = (Sram.INP, Sram.WGT)


class Range:
    """A range of elements of a buffer, from `low` to below `high`."""

    __slots__ = ("high", "low", "memory")

    def __init__(self, memory: Sram, low: int, count: int) -> None:
        self.memory = memory
        self.low = low
        self.high = low + count


class Stream:
    """Instructions in program order, whose indices into DRAM count from the beginning of the memory."""

    def __init__(self, config: VtaConfig) -> None:
        self._instructions: list[Instruction] = []
        self._flags: list[dict[str, bool]] = []
        self._ended: list[tuple[int, ...]] = []  # instructions of each stage known to have ended with each
        self._places: dict[PipelineStage, list[int]] = {stage: [] for stage in PipelineStage}
        self._clock = {stage: [0, 0, 0] for stage in PipelineStage}
        depth = {memory: config.buffers[memory].depth for memory in (*_LOADED, Sram.ACC)}
        # For each element: the number (from 1) of the last instruction of a stage that used it.
        self._loaded = {memory: np.zeros(depth[memory], np.int64) for memory in _LOADED}
        self._used = {memory: np.zeros(depth[memory], np.int64) for memory in _LOADED}
        self._computed = np.zeros(depth[Sram.ACC], np.int64)
        self._stored = np.zeros(depth[Sram.ACC], np.int64)

    @property
    def stores(self) -> int:
        """Number of STOREs so far; pass it to `load` to wait for the last of them."""
        return self._clock[PipelineStage.STORE][PipelineStage.STORE]

    def load(self, instruction: Load, elements: int, stores: int = 0) -> None:
        """Append a LOAD of INP or WGT.

        Parameters
        ----------
        elements
            Number of elements that it writes.
        stores
            It waits for this number of STOREs, counted from the start of the program.
        """
        low, memory = instruction.sram_base, instruction.memory
        users = int(self._used[memory][low : low + elements].max())
        if stores > self._clock[PipelineStage.LOAD][PipelineStage.STORE]:
            users = max(users, self._collect(PipelineStage.STORE, stores))
        self._emit(instruction, PipelineStage.LOAD, PipelineStage.COMPUTE, users)
        self._loaded[memory][low : low + elements] = self._number(PipelineStage.LOAD)

    def compute(
        self, instruction: Load | Gemm | Alu, written: Range | None = None, read: tuple[Range, ...] = ()
    ) -> int:
        """Append an instruction of the stage compute; return its index in the program.

        Parameters
        ----------
        written
            Elements of ACC that it writes.
        read
            Elements of INP and WGT that it reads.
        """
        loads = max((int(self._loaded[part.memory][part.low : part.high].max()) for part in read), default=0)
        stores = 0
        if written is not None:
            stores = int(self._stored[written.low : written.high].max())
        # Loads first: an instruction takes a token of each side, if it must.
        self._emit(instruction, PipelineStage.COMPUTE, PipelineStage.LOAD, loads, PipelineStage.STORE, stores)
        number = self._number(PipelineStage.COMPUTE)
        for part in read:
            self._used[part.memory][part.low : part.high] = number
        if written is not None:
            self._computed[written.low : written.high] = number
        return len(self._instructions) - 1

    def store(self, instruction: Store) -> None:
        """Append a STORE."""
        low, high = instruction.sram_base, instruction.sram_base + instruction.y_size * instruction.x_size
        self._emit(
            instruction, PipelineStage.STORE, PipelineStage.COMPUTE, int(self._computed[low:high].max())
        )
        self._stored[low:high] = self._number(PipelineStage.STORE)

    def patch(self, place: int, instruction: Load) -> None:
        """Replace an instruction by one that uses the same elements."""
        self._instructions[place] = instruction

    def finished(self) -> list[Instruction]:
        """Append a FINISH that waits for all stages, and return the program with its tokens."""
        for stage in (PipelineStage.LOAD, PipelineStage.STORE):
            self._collect(stage, self._number(stage))
        self._emit(Finish(), PipelineStage.COMPUTE)
        flagged = zip(self._instructions, self._flags, strict=True)
        return [_with_flags(instruction, flags) if flags else instruction for instruction, flags in flagged]

    def _collect(self, stage: PipelineStage, number: int) -> int:
        """Make compute wait for an instruction; return the number of the compute instruction that waits."""
        if self._clock[PipelineStage.COMPUTE][stage] < number:
            self._emit(nop(PipelineStage.COMPUTE), PipelineStage.COMPUTE, stage, number)
        return self._number(PipelineStage.COMPUTE)

    def _number(self, stage: PipelineStage) -> int:
        return self._clock[stage][stage]

    def _emit(self, instruction: Instruction, stage: PipelineStage, *needs: int) -> None:
        """Append an instruction; `needs` are pairs of a stage and the number of its instruction awaited."""
        clock = self._clock[stage]
        flags: dict[str, bool] = {}
        for other, number in zip(needs[::2], needs[1::2], strict=True):
            if number <= clock[other]:
                continue
            place = self._places[PipelineStage(other)][number - 1]
            after = other < stage
            self._flags[place]["push_next" if after else "push_prev"] = True
            flags["pop_prev" if after else "pop_next"] = True
            for index, known in enumerate(self._ended[place]):
                clock[index] = max(clock[index], known)
        clock[stage] += 1
        self._places[stage].append(len(self._instructions))
        self._instructions.append(instruction)
        self._flags.append(flags)
        self._ended.append(tuple(clock))


def _with_flags(instruction: Instruction, flags: dict[str, bool]) -> Instruction:
    changed: Instruction = replace(instruction, **cast("dict[str, Any]", flags))
    return changed
