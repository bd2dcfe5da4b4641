"""Runs a dump in the simulator and compares the memory with the expected one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolchain.quantities import counted
from toolchain.vta.dumps.layout import Dump, Place
from toolchain.vta.machine.requests import CycleCounts, EncodedProgram, Refused, SimOptions
from toolchain.vta.machine.simulator import DEADLINE_S, Outcome, Simulator


@dataclass(frozen=True)
class Difference:
    """The difference between the memory after a run and the expected one.

    Attributes
    ----------
    bytes, first
        Number of bytes that differ, and the offset of the first.
    got, expected
        Values of the first byte that differs.
    output
        Index of the output that contains this byte; None if it is in no output.
    """

    bytes: int
    first: int
    got: int
    expected: int
    output: int | None


@dataclass(frozen=True)
class Judged:
    """The result of running a dump.

    Attributes
    ----------
    passed
        Whether the memory equals the expected one; None if the dump has no expected memory.
    """

    outcome: Outcome
    passed: bool | None
    difference: Difference | None

    @property
    def model(self) -> CycleCounts | None:
        """Cycles by the cycle model; None if the program was refused."""
        return None if isinstance(self.outcome, Refused) else self.outcome.model

    def complaint(self, folder: str, *, strict: bool) -> tuple[str, str]:
        """Return what is wrong with a dump that did not pass `judge`, and what to type next."""
        if isinstance(self.outcome, Refused):
            return f"{folder}: {self.outcome.message} ({self.outcome.rule})", f"toolchain vta disasm {folder}"
        assert self.difference is not None  # noqa: S101
        wrong = self.difference
        where = "in no output" if wrong.output is None else f"in output {wrong.output}"
        return (
            f"{folder}: the memory differs from expected.bin in {counted(wrong.bytes, 'byte')}; the first is "
            f"byte {wrong.first}, {where}: {wrong.got} instead of {wrong.expected}",
            f"toolchain vta disasm {folder}" if strict else f"toolchain vta simulate {folder} --strict",
        )

    def document(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        ran = None if isinstance(self.outcome, Refused) else self.outcome
        return {
            "passed": self.passed,
            "refused": self.outcome.model_dump() if isinstance(self.outcome, Refused) else None,
            "difference": None if self.difference is None else vars(self.difference),
            "model": None if ran is None else {"ms": ran.milliseconds, **ran.model.model_dump()},
        }


def judge(
    dump: Dump,
    *,
    strict: bool = False,
    trace: bool = False,
    deadline_s: float = DEADLINE_S,
    progress: Callable[[str], None] | None = None,
) -> Judged:
    """Run a dump's program, and compare the memory with the expected one.

    Parameters
    ----------
    strict
        Whether to refuse programs that only some implementations of VTA run.
    trace
        Whether to record when each instruction begins and ends.
    progress
        Called with a line now and then while the simulator is compiled, which happens once.

    Raises
    ------
    ToolchainError
        The errors are those of `Simulator.run`.
    """
    program = EncodedProgram(dump.config, dump.program, dump.before, dump.phys_base)
    with Simulator(progress=progress) as simulator:
        outcome = simulator.run(program, SimOptions(strict=strict, timeline=trace), deadline_s)
    if isinstance(outcome, Refused):
        return Judged(outcome, False, None)
    if dump.after is None or outcome.memory is None:
        return Judged(outcome, None, None)
    got, expected = (np.frombuffer(data, np.uint8) for data in (outcome.memory, dump.after))
    wrong = np.flatnonzero(got != expected)
    if not len(wrong):
        return Judged(outcome, True, None)
    first = int(wrong[0])
    difference = Difference(
        len(wrong), first, int(got[first]), int(expected[first]), _output(dump.outputs, first)
    )
    return Judged(outcome, False, difference)


def _output(places: Sequence[Place], offset: int) -> int | None:
    for number, place in enumerate(places):
        if place.offset <= offset < place.offset + place.bytes:
            return number
    return None
