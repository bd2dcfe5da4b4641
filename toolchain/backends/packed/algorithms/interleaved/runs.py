"""Runs of phases: neighbours that one loop computes, since they differ by their remainders alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from toolchain.backends.packed.recognise.read import Expr
from toolchain.backends.packed.recognise.transposed import OutputPhase, Transposed

_APART = 16
"""Most phases with code of their own: a stride of 4 along two axes. 64 took LLVM 44 s."""


@dataclass(frozen=True)
class PhaseRun:
    """Phases of an axis with equal taps at equal places.

    Attributes
    ----------
    first
        The one with the smallest remainder; those of the others follow.
    count
        Number of phases.
    before
        Taps of this axis that earlier phases have.
    """

    first: OutputPhase
    count: int
    before: int


def runs_of(conv: Transposed) -> list[tuple[PhaseRun, ...]]:
    """Return all combinations of the axes' runs; of a layer with few phases each is a run."""
    apart = prod(conv.stride) <= _APART
    return list(product(*(list(_runs(conv, axis, apart)) for axis in range(len(conv.out)))))


def first_tap(conv: Transposed, runs: Sequence[PhaseRun], steps: Sequence[Expr | int]) -> Expr | int:
    """Return the index in the weight of the first tap of a phase, `steps` phases from the first of each run.

    Weights have the taps phase by phase, those of the last axis innermost.
    """
    found: Expr | int = 0
    for axis, (run, step) in enumerate(zip(runs, steps, strict=True)):
        around = prod(run.first.taps for run in runs[:axis]) * prod(conv.kernel[axis + 1 :])
        found = found + (run.before + step * run.first.taps) * around
    return found


def _runs(conv: Transposed, axis: int, apart: bool) -> Iterator[PhaseRun]:
    before = 0
    found: list[OutputPhase] = []
    for phase in conv.phases(axis):
        if found and (apart or _kind(conv, axis, phase) != _kind(conv, axis, found[0])):
            yield PhaseRun(found[0], len(found), before)
            before += len(found) * found[0].taps
            found = []
        found.append(phase)
    yield PhaseRun(found[0], len(found), before)


def _kind(conv: Transposed, axis: int, phase: OutputPhase) -> tuple[int, ...]:
    return phase.taps, phase.offset, phase.back, conv.places(axis, phase)
