"""A rollout: phase after phase, with a gate between, each event in the journal first."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from toolchain.boards.board import Board
from toolchain.boards.power.cycles import PowerCycles
from toolchain.rollouts.attempt import Delivery
from toolchain.rollouts.events import (
    AnyEvent,
    BoardCycled,
    BoardDone,
    BoardMoved,
    GateJudged,
    JournalEvent,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
    RolloutResumed,
)
from toolchain.rollouts.fleet import lost_release
from toolchain.rollouts.gate import judge
from toolchain.rollouts.journal import Journal
from toolchain.rollouts.outcome import FAILURES, WORKS, Outcome
from toolchain.rollouts.pool import run_jobs
from toolchain.rollouts.worker import Job

_STOPPED = "it was stopped"
_SWITCH_S = 120.0  # for a board that is just being switched when the rollout ends


@dataclass
class Rollout:
    """A rollout at work.

    Attributes
    ----------
    boards
        All boards of the rollout, by name.
    outcomes
        Outcomes of the boards that have ended; those of an earlier command too.
    listen
        Called in the thread of `run` with each event.
    stop
        Set to end the rollout: no board begins, boards that receive stop and can be resumed.
    passed
        Phases after which an earlier command went on to the next one.
    cycles
        Power-cycles boards that went silent.
    """

    began: RolloutBegan
    boards: Mapping[str, Board]
    delivery: Delivery
    journal: Journal
    listen: Callable[[AnyEvent], None]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    passed: Set[int] = frozenset()
    stop: threading.Event = field(default_factory=threading.Event)
    cycles: PowerCycles = field(default_factory=PowerCycles)
    _moves: queue.SimpleQueue[BoardMoved | BoardCycled] = field(default_factory=queue.SimpleQueue)

    def run(self, *, resumed: bool = False) -> RolloutEnded:
        """Run the phases to their end; return the last event.

        Parameters
        ----------
        resumed
            Whether the journal has the beginning already.
        """
        if resumed:
            self.journal.append(RolloutResumed())
            self.listen(self.began)
            for name, outcome in self.outcomes.items():
                self.listen(BoardDone(board=name, phase=self._phase_of(name), outcome=outcome))
        else:
            self._note(self.began)
        try:
            reason = self._phases()
        finally:
            self.cycles.finish_switching(_SWITCH_S)  # else a board could stay without power
        ended = RolloutEnded(complete=not reason, reason=reason)
        self._note(ended)
        return ended

    def _phases(self) -> str:
        """Run the phases that an earlier command left; return why the rollout ends before the last one."""
        for number, names in enumerate(self.began.phases, 1):
            done = all(self._works(name) for name in names)
            if done and number in self.passed:
                continue
            if not done:
                self._note(PhaseStarted(phase=number))
                self._run_phase(number, names)
            if self.stop.is_set():
                return _STOPPED
            verdict = self._gate(number, names, last=number == len(self.began.phases))
            if not verdict.passed:
                return verdict.reason
        return ""

    @property
    def all_work(self) -> bool:
        """Whether every board of the phases runs the release."""
        return all(self._works(name) for names in self.began.phases for name in names)

    def rows(self) -> list[tuple[str, int, Outcome]]:
        """Return name, phase and outcome of each board; those that no phase reached are `skipped`."""
        skipped = Outcome(state="skipped", error="the rollout ended before its phase")
        return [
            (name, number, self.outcomes.get(name, skipped))
            for number, names in enumerate(self.began.phases, 1)
            for name in names
        ]

    def _phase_of(self, name: str) -> int:
        return next(number for number, names in enumerate(self.began.phases, 1) if name in names)

    def _works(self, name: str) -> bool:
        return name in self.outcomes and self.outcomes[name].state in WORKS

    def _run_phase(self, number: int, names: Sequence[str]) -> None:
        def moved(board: str, step: str, sent: int) -> None:
            self._moves.put(BoardMoved(board=board, step=step, sent=sent))

        rules = self.began.rules
        todo = [name for name in names if not self._works(name)]
        for name in todo:
            self.outcomes.pop(name, None)  # of an earlier command
        jobs = [
            Job(
                self.boards[name],
                self.delivery,
                rules.window_s,
                self.stop,
                moved,
                cycles=self.cycles,
                cycled=self._moves.put,
            )
            for name in todo
        ]

        def done(job: Job, outcome: Outcome | None) -> bool:
            if outcome is not None:
                self._take(number, job.board.name, outcome)
            failed = sum(each.state in FAILURES for each in self.outcomes.values())
            return failed <= rules.max_failures

        for job in run_jobs(jobs, rules.at_once, self.stop, done, self._drain):
            self._take(
                number, job.board.name, Outcome(state="skipped", error="the rollout ended before its turn")
            )

    def _gate(self, number: int, names: Sequence[str], *, last: bool) -> GateJudged:
        """Judge a phase; before another one, wait and look at its boards again."""
        rules = self.began.rules
        verdict = judge(number, names, self.outcomes, self.began.lab, rules)
        if verdict.passed and not last and rules.pause_s:
            deadline = time.monotonic() + rules.pause_s
            while time.monotonic() < deadline and not self.stop.wait(min(1.0, rules.pause_s)):
                self._drain()
            if self.stop.is_set():
                verdict = verdict.model_copy(update={"passed": False, "reason": _STOPPED})
            else:
                working = [self.boards[name] for name in names if self._works(name)]
                lost = lost_release(working, self.began.app, self.began.version, rules.at_once)
                if lost:
                    said = f"after the pause, {', '.join(lost)} did not run the release any more"
                    verdict = verdict.model_copy(update={"passed": False, "reason": said})
        self._note(verdict)
        return verdict

    def _take(self, phase: int, name: str, outcome: Outcome) -> None:
        self.outcomes[name] = outcome
        self._note(BoardDone(board=name, phase=phase, outcome=outcome))

    def _note(self, event: JournalEvent) -> None:
        self._drain()
        self.journal.append(event)
        self.listen(event)

    def _drain(self) -> None:
        while not self._moves.empty():
            event = self._moves.get()
            if isinstance(event, BoardCycled):
                self.journal.append(event)
            self.listen(event)
