"""What a run of two tasks tells."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.tasks.task import Task
from toolchain.tuning.events import Began, Event, StepBegan, Trial, TurnBegan, TurnEnded


@dataclass(frozen=True)
class Named(Task):
    """A task with no more than its name."""

    @property
    def definition(self) -> str:
        return self.name


CONV = Named("44fe76e2a0b1c2d3", "fused_conv2d", weight=3, flops=8_000_000, shapes=((1, 8),))
DENSE = Named("90ab12cd90ab12cd", "fused_dense", weight=1, flops=1_000_000, shapes=((1, 8),))


def begun() -> list[Event]:
    """Return what is told until the search begins: 3 x 2 ms + 1 ms."""
    return [
        Began((CONV, DENSE), 20),
        StepBegan("measuring the defaults"),
        Trial(CONV, "default", 2.0, 2.0, board="b1"),
        Trial(DENSE, "default", 1.0, 1.0, board="b1"),
        StepBegan("searching"),
    ]


def batch() -> list[Event]:
    """Return a turn of three trials, one of which failed."""
    return [
        TurnBegan(CONV, 3),
        Trial(CONV, "search", 1.0, 1.0, board="b1"),
        Trial(CONV, "search", None, 1.0, "timeout", "not done within 3 s", board="b2"),
        Trial(CONV, "search", 1.5, 1.0, board="b1"),
        TurnEnded(CONV, 3, 1.0),
    ]
