"""The end of a run: who judges the finalists, and what is kept of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.models.load import Model
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.records.store import RecordStore
from toolchain.rpc.lab import PORT_VARIABLE
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.task import Task
from toolchain.tuning.confirm import Confirmed, Finalist, choice_of, confirm
from toolchain.tuning.events import Listener, Notice, Step
from toolchain.tuning.finalists import finalists
from toolchain.tuning.judge import Judgement, judge
from toolchain.tuning.network_bench import BoardNetworkBench
from toolchain.tuning.result import TunedTask
from toolchain.tuning.task_run import TaskRun

SEARCH_SHARE = 0.75
"""Of the time that a user gives; the rest is for the network."""

_SHARE_OF_SEARCH = 1 / 3  # so long the network may take where no time was given
_LEAST_S = 60.0


def obstacle_to_network(runner: str, boards: Sequence[Board]) -> str:
    """Return why finalists cannot be judged in the network; empty: they can."""
    if runner != "boards":
        return f"--runner {runner} runs no networks"
    if os.environ.get(PORT_VARIABLE):
        return "in a container boards are reached through the lab alone: add --engine host"
    if all(board.emulated for board in boards):
        return "the times of an emulated board say nothing about silicon"
    return ""


def judge_until(begun: float, time_s: float | None) -> float:
    """Return when the network's judge begins no more rounds, in the seconds of `time.monotonic`."""
    if time_s is not None:
        return begun + time_s
    searched = time.monotonic() - begun
    return time.monotonic() + max(_LEAST_S, searched * _SHARE_OF_SEARCH)


@dataclass(frozen=True)
class NetworkJudge:
    """What the judge of the network needs."""

    model: Model
    backend: Backend
    network: Network
    target: BoardTarget
    boards: Sequence[Board]
    store: RecordStore
    listener: Listener

    def judge(self, runs: Sequence[TaskRun], standing: Sequence[Sequence[Finalist]], until: float) -> Judged:
        """Judge on one board; where that goes away, on the next.

        Raises
        ------
        UsageError
            The network cannot be judged anywhere: on the sample it computes nothing finite, say.
        ToolchainError
            No board stays for long enough, or the network cannot be built.
        """
        candidates = {
            run.task.workload: [finalist.point for finalist in own]
            for run, own in zip(runs, standing, strict=True)
        }
        lost: ToolchainError | None = None
        for board in self.boards:
            try:
                with scratch_folder() as folder:
                    bench = BoardNetworkBench(
                        *(self.model, self.backend, self.network, self.target, board, self.store),
                        [run.task for run in runs],
                        folder,
                    )
                    said = judge(candidates, bench, until, lambda text: self.listener(Notice(text)))
                    return Judged(said, board.name)
            except UsageError:  # no board can help: the network gives nothing to compare with, say
                raise
            except ToolchainError as error:
                lost = error
                self.listener(Notice(f"board {board.name}: the network cannot be timed: {error.message}"))
        raise ToolchainError(
            f"the finalists could not be judged in the network: {lost.message if lost else 'no board'}",
            "what was measured is kept: run it again",
        ) from lost


@dataclass(frozen=True)
class Judged:
    """What the network said, and on which board."""

    judgement: Judgement
    board: str

    def of(self, task: Task, own: Sequence[Finalist]) -> Confirmed:
        """Return what it says of a task."""
        said = self.judgement
        winner = own[said.winners.get(task.workload, 0)]
        nothing = (winner.record.run_ms, own[0].record.run_ms)  # no function of its own in the network
        ms, default_ms = said.task_ms.get(task.workload, nothing)
        calls = task.weight if task.workload in said.task_ms else 1
        choice = choice_of(winner.record, [network_ms / calls for network_ms in ms], self.board)
        return Confirmed(choice, fmean(default_ms) / calls)


def conclude(
    runs: Sequence[TaskRun], network: NetworkJudge, obstacle: str, until: float
) -> tuple[list[TunedTask], Judgement | None]:
    """Choose among each task's finalists, and keep the choice.

    Parameters
    ----------
    obstacle
        Why the network cannot judge; empty: it does.

    Returns
    -------
    tuple
        The tasks, and what the network said; None where it was not asked.
    """
    network.listener(Step("checking the finalists"))
    standing = [finalists(run) for run in runs]
    if all(len(own) == 1 for own in standing):
        return [run.settle(own, _undisputed(own[0])) for run, own in zip(runs, standing, strict=True)], None
    if obstacle:
        network.listener(Notice(f"the finalists are measured alone, not in the network: {obstacle}"))
        return _alone(runs, standing), None
    network.listener(Step("timing the network with the finalists"))
    try:
        judged = network.judge(runs, standing, until)
    except UsageError as error:
        network.listener(Notice(f"the finalists are measured alone, not in the network: {error.message}"))
        return _alone(runs, standing), None
    tuned = [run.settle(own, judged.of(run.task, own)) for run, own in zip(runs, standing, strict=True)]
    return tuned, judged.judgement


def _undisputed(default: Finalist) -> Confirmed:
    return Confirmed(choice_of(default.record, default.record.run_ms), default.result.mean_ms)


def _alone(runs: Sequence[TaskRun], standing: Sequence[Sequence[Finalist]]) -> list[TunedTask]:
    """Compare each task's finalists once more, by themselves."""
    runner = runs[0].context.bench.runner
    let_signals_end_waits()

    def keep(run: TaskRun, own: Sequence[Finalist]) -> TunedTask:
        return run.settle(own, confirm(run.task, own, runner))

    with ThreadPoolExecutor(runner.lanes) as threads:
        return list(threads.map(keep, runs, standing))
