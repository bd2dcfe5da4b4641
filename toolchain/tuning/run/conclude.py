"""The end of a run: judges the finalists, in the network or alone, and stores the choices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from toolchain.boards.board import Board
from toolchain.boards.transport import LostError
from toolchain.building.bundling import Compilation
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.measuring.execute import BusyError
from toolchain.models.load import Model
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.records.record import PASSING_FAILURES
from toolchain.records.store import RecordStore, Usable
from toolchain.rpc.lab import PORT_VARIABLE
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network
from toolchain.tasks.task import Task
from toolchain.tuning.allowance import Allowance, TimeUpError
from toolchain.tuning.events import Listener, Notice, StepBegan
from toolchain.tuning.judging.confirm import (
    LEAST_ROUNDS,
    ROUNDS,
    Confirmed,
    Finalist,
    Measured,
    choice_of,
    confirm,
    result_of,
)
from toolchain.tuning.judging.judge import NetworkJudgement, judge
from toolchain.tuning.judging.network_bench import prepare_network_bench
from toolchain.tuning.options import BOARDS
from toolchain.tuning.result import TunedTask
from toolchain.tuning.task_run import TaskRun

# Selects the finalists of a task: the fastest candidates whose outputs are right.

_OF_THIS_RUN = 2
# A candidate that uses less cache may look up to 5 % slower alone than it is in the network.
_HOPELESS = 1.05


def finalists(run: TaskRun[Any]) -> list[Finalist[Any]]:
    """Check candidates on a board; return the default, the best of this run and the choices of earlier runs.

    A candidate with wrong outputs is stored as a failure, and the next best replaces it.
    """
    return _Finalists(run).all()


class _Finalists:
    def __init__(self, run: TaskRun[Any]) -> None:
        self.run, self.context, self.space = run, run.context, run.space
        self.standing = [run.default]
        self.refused: set[str] = set()
        self.away = False  # when a candidate was checked last

    def all(self) -> list[Finalist[Any]]:
        fast = [each for each in self.run.measured if each.result.mean_ms < _HOPELESS * self.run.default_ms]
        for candidate in sorted(fast, key=lambda each: each.result.mean_ms):
            if len(self.standing) > _OF_THIS_RUN:
                break
            self._take(candidate)
            self.run.unchecked = self.away and len(self.standing) == 1
        if not self.context.fresh:
            for usable in (self.space.usable, self.space.allowed):
                for earlier in self._choices(usable):
                    if earlier.record.digest in self._digests or self._take(earlier):
                        break
                    # A board that was away says nothing about the code: what builds use today is not refuted.
                    self.run.unchecked = self.run.unchecked or self.away
        return self.standing

    @property
    def _digests(self) -> set[str]:
        return {finalist.record.digest for finalist in self.standing}

    def _choices(self, usable: Usable) -> Iterator[Measured[Any]]:
        """Yield the choice of earlier runs, then the next best ones as long as the caller refuses them."""
        while True:
            record = self.context.store.best(
                self.run.key, self.space.kinds, lambda one: usable(one) and one.digest not in self.refused
            )
            if record is None:
                return
            try:
                candidate = Measured(self.run.point(record), record, result_of(record))
            except ToolchainError:  # it no longer applies: a build would not use it either
                self.refused.add(record.digest)
                continue
            yield candidate

    def _take(self, candidate: Measured[Any]) -> bool:
        """Check every case of a candidate on a board; return whether it became a finalist."""
        evaluator = self.context.evaluator
        self.away = False
        try:
            (built,) = evaluator.builder.build([self.space.candidate(candidate.point)])
        except ToolchainError:  # it no longer applies
            self.refused.add(candidate.record.digest)
            return False
        (result,) = evaluator.runner.check(self.run.task, [built])
        if result.failure:
            self.run.refuse(built, result)
            self.refused.add(candidate.record.digest)
            self.away = result.failure in PASSING_FAILURES
            return False
        self.standing.append(Finalist(candidate.point, candidate.record, candidate.result, built))
        return True


# Compares the finalists of each task alone, if they cannot be judged in the network.

NOT_COMPARED = (
    "--time is over before the fastest were compared again, so builds use what an earlier run confirmed, or "
    "else the fastest trial; run the same command with more --time, or without it, to compare them"
)
_ALL_FAILED = (
    "its default and all finalists failed when they were compared; builds use what was measured before. Run "
    "it again"
)


class Alone:
    """The comparison of all tasks' finalists.

    Parameters
    ----------
    checks_s
        Seconds that it took to check every finalist but the defaults; a round of the comparison takes about
        as long for each finalist.
    """

    def __init__(
        self,
        runs: Sequence[TaskRun[Any]],
        standing: Sequence[Sequence[Finalist[Any]]],
        allowed: Allowance,
        listener: Listener,
        checks_s: float,
    ) -> None:
        self._runs, self._standing, self._allowed, self._listener = runs, standing, allowed, listener
        finalists = sum(len(own) for own in standing)
        self.round_s = checks_s * finalists / max(1, finalists - len(standing))
        """Predicted seconds of one round."""

    def compared(self) -> list[TunedTask]:
        """Compare in as many rounds as there is time for, store the choices, and return the tasks."""
        enough = range(ROUNDS, LEAST_ROUNDS - 1, -1)
        rounds = next((most for most in enough if self._allowed.fits(most * self.round_s)), 0)
        if rounds == 0:
            self._listener(Notice(NOT_COMPARED))
            return [run.unsettled() for run in self._runs]
        runner = self._runs[0].context.evaluator.runner
        let_signals_end_waits()

        def keep(run: TaskRun[Any], own: Sequence[Finalist[Any]]) -> TunedTask:
            confirmed = confirm(run.task, own, runner, rounds)
            if confirmed:
                return run.settle(own, confirmed)
            self._listener(Notice(f"task {run.task.id} ({run.task.name}): {_ALL_FAILED}"))
            return run.unsettled()

        with ThreadPoolExecutor(runner.lanes) as threads:
            return list(threads.map(keep, self._runs, self._standing))


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
                compilation = Compilation(self.model, self.backend, board.build_for, self.target)
                bench = prepare_network_bench(compilation, self.network, board, self.store, tasks, folder)
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
