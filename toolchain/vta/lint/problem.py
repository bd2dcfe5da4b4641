"""The rules of portable programs, and the places where a program breaks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.vta.isa.instructions import Instruction, text_of

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
    """Collects problems, only the first for each instruction and rule."""

    def __init__(self, program: Sequence[Instruction]) -> None:
        self.program = program
        self._found: dict[tuple[int | None, str], RuleViolation] = {}

    def add(self, rule: str, index: int | None, reason: str) -> None:
        """Add a problem."""
        text = "" if index is None else text_of(self.program[index])
        self._found.setdefault((index, rule), RuleViolation(rule, index, text, reason))

    def found(self) -> list[RuleViolation]:
        """Return the problems in program order, those of the whole program last."""
        end = len(self.program)
        return sorted(
            self._found.values(), key=lambda problem: end if problem.index is None else problem.index
        )
