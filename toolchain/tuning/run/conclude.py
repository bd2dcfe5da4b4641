"""The end of a run: who judges the finalists, and what is kept of it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toolchain.boards.board import Board
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc.lab import PORT_VARIABLE
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.task import Task
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.events import Listener, Notice, Step
from toolchain.tuning.judging.confirm import Confirmed, Finalist, choice_of
from toolchain.tuning.judging.judge import Judgement, judge
from toolchain.tuning.judging.network_bench import prepare_network_bench
from toolchain.tuning.options import BOARDS
from toolchain.tuning.result import TunedTask
from toolchain.tuning.run.alone import NOT_COMPARED, Alone
from toolchain.tuning.run.finalists import finalists
from toolchain.tuning.task_run import TaskRun


def obstacle_to_network(runner: str, boards: Sequence[Board], *, modelled: bool = False) -> str:
    """Return why finalists cannot be judged in the network; empty: they can.

    Parameters
    ----------
    modelled
        What the runner said of the defaults is a model's.
    """
    if runner != BOARDS:
        return f"--runner {runner} runs no networks"
    if modelled:
        return "a simulation computes there: what the clock shows of a network says nothing about the device"
    if os.environ.get(PORT_VARIABLE):
        return "in a container boards are reached through the lab alone: add --engine host"
    if all(board.emulated for board in boards):
        return "the times of an emulated board say nothing about silicon"
    return ""


# Of a comparison without the network, which may turn out too slow while a measurement is under way.
_ROUNDS_KEPT = 2


@dataclass(frozen=True)
class NetworkJudge:
    """What the judge of the network needs."""

    model: Model
    backend: Backend[Any]
    network: Network[Any]
    target: BoardTarget
    boards: Sequence[Board]
    store: RecordStore
    listener: Listener

    def judge(
        self, runs: Sequence[TaskRun[Any]], standing: Sequence[Sequence[Finalist[Any]]], allowed: Allowance
    ) -> Judged:
        """Judge on one board; where that goes away, on the next.

        Raises
        ------
        UsageError
            The network cannot be judged anywhere: on the sample it computes nothing finite, say.
        TimeUpError
            The user's time is too short.
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
                    bench = prepare_network_bench(
                        *(self.model, self.backend, self.network, self.target, board, self.store),
                        [run.task for run in runs],
                        folder,
                    )
                    said = judge(candidates, bench, allowed, self._notice, self._step)
                    return Judged(said, board.name)
            except (UsageError, TimeUpError):  # no board can help: there is nothing to compare with, say
                raise
            except ToolchainError as error:
                lost = error
                self._notice(f"board {board.name}: the network cannot be timed: {error.message}")
        raise ToolchainError(
            f"the finalists could not be judged in the network: {lost.message if lost else 'no board'}",
            "what was measured is kept: run it again",
        ) from lost

    def _notice(self, text: str) -> None:
        self.listener(Notice(text))

    def _step(self, text: str) -> None:
        self.listener(Step(text))


@dataclass(frozen=True)
class Judged:
    """What the network said, and on which board."""

    judgement: Judgement
    board: str

    def of(self, task: Task, own: Sequence[Finalist[Any]]) -> Confirmed:
        """Return what it says of a task."""
        said = self.judgement
        winner = own[said.winners.get(task.workload, 0)]
        nothing = (winner.record.run_ms, own[0].record.run_ms)  # no function of its own in the network
        ms, default_ms = said.task_ms.get(task.workload, nothing)
        in_network = task.workload in said.task_ms
        calls = task.weight if in_network else 1
        choice = choice_of(
            winner.record, [total / calls for total in ms], self.board, modelled=False if in_network else None
        )
        return Confirmed(choice, fmean(default_ms) / calls)


def conclude(
    runs: Sequence[TaskRun[Any]], network: NetworkJudge, obstacle: str, allowed: Allowance
) -> tuple[list[TunedTask], Judgement | None]:
    """Choose among each task's finalists, and keep the choice.

    Parameters
    ----------
    obstacle
        Why the network cannot judge; empty: it does.
    allowed
        Where a user gave the time, what does not fit is left out, and that is said.

    Returns
    -------
    tuple
        The tasks, and what the network said; None where it was not asked, or had no time.
    """
    network.listener(Step("checking the finalists"))
    begun = time.monotonic()
    standing: list[list[Finalist[Any]]] = []
    for run in runs:
        if allowed.up:
            network.listener(Notice(NOT_COMPARED))
            return [run.unsettled() for run in runs], None
        standing.append(finalists(run))
    if all(len(own) == 1 for own in standing):
        return [run.settle(own, _undisputed(own[0])) for run, own in zip(runs, standing, strict=True)], None
    alone = Alone(runs, standing, allowed, network.listener, time.monotonic() - begun)
    if not obstacle:
        network.listener(Step("timing the network with the finalists"))
        try:
            judged = network.judge(runs, standing, allowed.without(_ROUNDS_KEPT * alone.least_s))
        except UsageError as error:
            obstacle = error.message
        except TimeUpError as error:
            obstacle = f"{error.message}; {error.hint}"
        else:
            tuned = [
                run.settle(own, judged.of(run.task, own)) for run, own in zip(runs, standing, strict=True)
            ]
            return tuned, judged.judgement
    network.listener(Notice(f"the finalists are measured alone, not in the network: {obstacle}"))
    return alone.compared(), None


def _undisputed(default: Finalist[Any]) -> Confirmed:
    return Confirmed(choice_of(default.record, default.record.run_ms), default.result.mean_ms)
