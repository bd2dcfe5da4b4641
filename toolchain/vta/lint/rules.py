"""The rules of portable programs, violations of them, and the rules that a single instruction can break."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.vta.design import Sram, VtaConfig
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

RULES = {
    "alu": "ALU computes MIN, MAX, ADD and SHR",
    "shift": "SHR shifts by -16 to 15, by a tensor's lanes 0 to 15",
    "immediate": "with an immediate, src of micro-ops and factors is dst",
    "trip-count": "loops and sizes are 1 or more, or a NOP's sizes all 0",
    "bounds": "what an instruction walks over lies in its buffer and in the program's memory",
    "undefined": "what is read was written in this run, micro-ops too",
    "race": "tokens say which is first where two stages use the same, and one writes",
    "memory": "micro-ops are loaded in one row, ACC in 32 bits",
    "padding": "only INP is padded, and ACC in revision 2",
    "stale-out": "what is stored was last touched by ALU, or by GEMM that does not reset",
    "hazard": "an element of ACC is used again after 4 steps or more",
    "tokens": "tokens are taken as often as given, 255 of a queue at most wait",
    "deadlock": "each token that is waited for comes",
    "look-ahead": "no instruction waits for one that is 512 of its own stage away",
    "arena": "memory begins a page; it and the instructions have 32 MiB at most",
    "finish": "FINISH is last, without flags, when all else has ended",
}
"""Rules of the portable subset, by the names that edge-rt's strict machine uses, too."""


@dataclass(frozen=True)
class RuleViolation:
    """A broken rule.

    Attributes
    ----------
    rule
        Name of the rule in `RULES`.
    index
        Index of the instruction; None if the whole program breaks the rule.
    text
        The instruction as text.
    reason
        Explanation for the user.
    """

    rule: str
    index: int | None
    text: str
    reason: str

    def __str__(self) -> str:
        where = "program" if self.index is None else f"instruction {self.index} ({self.text})"
        return f"{where}: {self.rule}: {self.reason}"

    def document(self) -> dict[str, Any]:
        """Return the problem for `--json`."""
        return {"rule": self.rule, "instruction": self.index, "text": self.text, "reason": self.reason}


class Finder:
    """Collects violations, only the first for each instruction and rule."""

    def __init__(self, program: Sequence[Instruction]) -> None:
        self.program = program
        self._violations: dict[tuple[int | None, str], RuleViolation] = {}

    def add(self, rule: str, index: int | None, reason: str) -> None:
        """Add a violation."""
        text = "" if index is None else text_of(self.program[index])
        self._violations.setdefault((index, rule), RuleViolation(rule, index, text, reason))

    def violations(self) -> list[RuleViolation]:
        """Return the violations in program order, those of the whole program last."""
        end = len(self.program)
        return sorted(
            self._violations.values(), key=lambda problem: end if problem.index is None else problem.index
        )


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
