"""How long a trial may take on a board."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.devices.device import CPU
from toolchain.measuring.deadlines import deadline
from toolchain.tasks.task import Task
from toolchain.tuning.options import TuneOptions


def trial_limit_s(task: Task, board: Board, options: TuneOptions, cases: int = 1, device: str = CPU) -> float:
    """Return the seconds that one candidate of a task is given.

    Parameters
    ----------
    cases
        How many draws of inputs it computes before it is timed.
    device
        Kind of what computes: a driver compiles when a kernel runs for the first time.
    """
    return deadline(
        task.flops,
        board.profile,
        emulated=board.emulated,
        device=device,
        # the comparisons, the evaluator's own warm-up, and what it times
        runs=cases + 1 + options.number * options.repeat,
        extra_s=options.repeat * options.min_repeat_ms / 1e3,
        timeout=options.timeout_s,
    ).seconds
