"""The end of a run: judges the finalists, in the network or alone, and stores the choices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.transport import LostError
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.measuring.execute import BusyError
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc.lab import PORT_VARIABLE
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.task import Task
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.events import Listener, Notice, StepBegan
from toolchain.tuning.judging.confirm import LEAST_ROUNDS, Confirmed, Finalist, choice_of
from toolchain.tuning.judging.judge import NetworkJudgement, judge
from toolchain.tuning.judging.network_bench import prepare_network_bench
from toolchain.tuning.options import BOARDS
from toolchain.tuning.result import TunedTask
from toolchain.tuning.run.alone import NOT_COMPARED, Alone
from toolchain.tuning.run.finalists import finalists
from toolchain.tuning.task_run import TaskRun


def obstacle_to_network(runner: str, boards: Sequence[Board], *, modelled: bool = False) -> str:
    """Return why finalists cannot be judged in the network; empty if they can.

    Parameters
    ----------
    modelled
        Whether the times of the defaults come from a model.
    """
    if runner != BOARDS:
        return f"--runner {runner} runs no networks"
    if modelled:
        return "a simulation computes there: its time for a network says nothing about the device"
    if os.environ.get(PORT_VARIABLE):
        return "in a container boards are reached through the lab alone: add --engine host"
    if all(board.emulated for board in boards):
        return "the times of an emulated board say nothing about silicon"
    return ""


_NOT_CHECKED = (
    "task {tasks}: no board could be reached to check what builds use today, which stays; run it again to "
    "compare"
)


@dataclass(frozen=True)
class NetworkJudge:
    """Judges finalists in the network; holds everything that is needed to build and time it.

    Attributes
    ----------
    revive
        Waits for a board of that name that went silent, perhaps power-cycles it; returns whether it answers.
    """

    model: Model
    backend: Backend[Any]
    network: Network[Any]
    target: BoardTarget
    boards: Sequence[Board]
    store: RecordStore
    listener: Listener
    revive: Callable[[str], bool]

    def judge(
        self, runs: Sequence[TaskRun[Any]], standing: Sequence[Sequence[Finalist[Any]]], allowed: Allowance
    ) -> BoardJudgement:
        """Judge the finalists on one board; if that fails, on the next.

        If none can, those that were busy or that went away and come back are tried again once.

        Raises
        ------
        UsageError
            No board can judge the network: for example, its outputs are not finite.
        TimeUpError
            The user's time is too short.
        ToolchainError
            No board stayed reachable long enough, or the network cannot be built.
        """
        candidates = {
            run.task.workload: [finalist.point for finalist in own]
            for run, own in zip(runs, standing, strict=True)
        }
        failures: dict[str, ToolchainError] = {}
        for again in (False, True):
            for board in self.boards:
                if again and (
                    (allowed.firm and allowed.up) or not self._is_back(board, failures[board.name])
                ):
                    continue
                said = self._ask(board, [run.task for run in runs], candidates, allowed)
                if isinstance(said, BoardJudgement):
                    return said
                failures[board.name] = said
        last = failures[self.boards[-1].name]
        raise ToolchainError(
            f"the finalists could not be judged in the network: {last.message}",
            "what was measured is kept: run it again",
        ) from last

    def _is_back(self, board: Board, failure: ToolchainError) -> bool:
        return isinstance(failure, BusyError) or (isinstance(failure, LostError) and self.revive(board.name))

    def _ask(
        self, board: Board, tasks: Sequence[Task], candidates: Mapping[str, Sequence[Any]], allowed: Allowance
    ) -> BoardJudgement | ToolchainError:
        """Judge on one board; return why it could not, if it could not."""
        try:
            with scratch_folder() as folder:
                bench = prepare_network_bench(
                    *(self.model, self.backend, self.network, self.target, board, self.store), tasks, folder
                )
                said = judge(candidates, bench, allowed, self._notice, self._step)
                return BoardJudgement(said, board.name)
        except (UsageError, TimeUpError):  # another board would not help
            raise
        except ToolchainError as error:
            self._notice(f"board {board.name}: the network cannot be timed: {error.message}")
            return error

    def _notice(self, text: str) -> None:
        self.listener(Notice(text))

    def _step(self, text: str) -> None:
        self.listener(StepBegan(text))


@dataclass(frozen=True)
class BoardJudgement:
    """A judgement with the name of the board that it was made on."""

    judgement: NetworkJudgement
    board: str

    def of(self, task: Task, own: Sequence[Finalist[Any]]) -> Confirmed:
        """Return the choice for a task, with times per call."""
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
) -> tuple[list[TunedTask], NetworkJudgement | None]:
    """Choose among each task's finalists, and store the choices.

    Parameters
    ----------
    obstacle
        Why the finalists cannot be judged in the network; empty if they can.
    allowed
        The time limit. If the user gave it, comparisons that do not fit are skipped with a notice.

    Returns
    -------
    tuple
        The tuned tasks, and the judgement in the network, None if there was none.
    """
    network.listener(StepBegan("checking the finalists"))
    begun = time.monotonic()
    standing: list[list[Finalist[Any]]] = []
    for run in runs:
        if allowed.up:
            network.listener(Notice(NOT_COMPARED))
            return [run.unsettled() for run in runs], None
        standing.append(finalists(run))
    if away := ", ".join(f"{run.task.id} ({run.task.name})" for run in runs if run.unchecked):
        network.listener(Notice(_NOT_CHECKED.format(tasks=away)))
    checked = [(run, own) for run, own in zip(runs, standing, strict=True) if not run.unchecked]
    chosen, judgement = _chosen(
        [run for run, _ in checked], [own for _, own in checked], network, obstacle, allowed, begun
    )
    settled = iter(chosen)
    return [run.unsettled() if run.unchecked else next(settled) for run in runs], judgement


def _chosen(
    runs: Sequence[TaskRun[Any]],
    standing: Sequence[Sequence[Finalist[Any]]],
    network: NetworkJudge,
    obstacle: str,
    allowed: Allowance,
    begun: float,
) -> tuple[list[TunedTask], NetworkJudgement | None]:
    """Compare the finalists of tasks, and store the choices."""
    if all(len(own) == 1 for own in standing):
        return [run.settle(own, _undisputed(own[0])) for run, own in zip(runs, standing, strict=True)], None
    alone = Alone(runs, standing, allowed, network.listener, time.monotonic() - begun)
    if not obstacle:
        network.listener(StepBegan("timing the network with the finalists"))
        try:
            judged = network.judge(runs, standing, allowed.without(LEAST_ROUNDS * alone.round_s))
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
