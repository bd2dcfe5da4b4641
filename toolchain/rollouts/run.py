"""A rollout: phase after phase, with a gate between, each event in the journal first."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from statistics import median

from toolchain.boards.board import Board
from toolchain.boards.power.cycles import PowerCycles
from toolchain.quantities import counted
from toolchain.rollouts.attempt import Delivery
from toolchain.rollouts.events import (
    AnyEvent,
    BoardCycled,
    BoardDone,
    BoardMoved,
    GateJudged,
    JournalEvent,
    LabNumbers,
    PhaseStarted,
    RolloutBegan,
    RolloutEnded,
    RolloutResumed,
    Rules,
)
from toolchain.rollouts.fleet import lost_release
from toolchain.rollouts.journal import Journal
from toolchain.rollouts.outcome import FAILURES, WORKS, Outcome
from toolchain.rollouts.worker import Job

# Runs the jobs of a phase in threads, with later tries, until all have ended or the user stops them.

_TICK_S = 0.2


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    stop: threading.Event,
    done: Callable[[Job, Outcome | None], bool],
    tick: Callable[[], None],
) -> list[Job]:
    """Run jobs, `at_once` at the same time; return those that never began.

    Parameters
    ----------
    stop
        No job begins any more once it is set; those at work end by themselves.
    done
        Called in this thread with each result, None for a job that is to be tried again; returns whether
        other jobs may begin.
    tick
        Called in this thread several times a second.
    """
    waiting, at_work = list(jobs), 0
    again: list[Job] = []
    results: queue.SimpleQueue[tuple[Job, Outcome | BaseException | None]] = queue.SimpleQueue()
    open_gate = True
    while at_work or ((waiting or again) and open_gate and not stop.is_set()):
        while at_work < at_once and open_gate and not stop.is_set():
            job = _next(waiting, again)
            if job is None:
                break
            at_work += 1
            _start(job, results)
        try:
            job, result = results.get(timeout=_TICK_S)
        except queue.Empty:
            tick()
            continue
        tick()
        at_work -= 1
        if isinstance(result, BaseException):
            raise result
        if result is None:
            again.append(job)
        open_gate = done(job, result) and open_gate
    for job in again:
        done(job, job.give_up())
    return waiting


def _next(waiting: list[Job], again: list[Job]) -> Job | None:
    """Take the next job that may begin: one that was never tried comes first."""
    if waiting:
        return waiting.pop(0)
    due = [job for job in again if job.not_before <= time.monotonic()]
    if not due:
        return None
    again.remove(due[0])
    return due[0]


def _start(job: Job, results: queue.SimpleQueue[tuple[Job, Outcome | BaseException | None]]) -> None:
    def run() -> None:
        try:
            results.put((job, job.run()))
        except BaseException as error:  # for the thread that waits
            results.put((job, error))

    threading.Thread(target=run, name=f"rollout {job.board.name}", daemon=True).start()


# Judges a phase: whether the next one may begin.


def judge(
    phase: int, boards: Sequence[str], outcomes: Mapping[str, Outcome], lab: LabNumbers | None, rules: Rules
) -> GateJudged:
    """Judge phase number `phase` by the outcomes of its boards, and by all failures before.

    The rollout ends when more boards failed than the rules allow, when no board of the phase runs the
    release, or when the boards' median latency exceeds the lab's by more than the rules allow. Errors of the
    outputs are judged by each board, against the tolerance that was signed.

    A difference of up to `rules.slack_us` is none. A self-test has a few runs in a process that has only just
    begun, the lab's bench has thousands. By `benchmarks/field.py`, 100 self-tests of a network of 10 us took
    up to 60 us on a PC, whether or not other programs kept its cores busy; a millisecond lets boards be 16
    times slower, and changes nothing for networks of more than 2 ms at the usual `--max-slowdown`.
    """
    of_phase = [outcomes[name] for name in boards]
    tests = [outcome.test for outcome in of_phase if outcome.test]
    latency = round(median(test.latency_us for test in tests)) if tests else None
    error = max((test.error_ppb for test in tests if test.error_ppb is not None), default=None)
    failed = sum(outcome.state in FAILURES for outcome in outcomes.values())
    working = sum(outcome.state in WORKS for outcome in of_phase)
    reason, passed = _reason(phase, working, failed, latency, lab, rules)
    return GateJudged(phase=phase, passed=passed, reason=reason, latency_us=latency, error_ppb=error)


def _reason(
    phase: int, working: int, failed: int, latency: int | None, lab: LabNumbers | None, rules: Rules
) -> tuple[str, bool]:
    if failed > rules.max_failures:
        return f"{counted(failed, 'board')} failed, more than --max-failures {rules.max_failures}", False
    if not working:
        return f"no board of phase {phase} runs the release", False
    if latency is None or lab is None or lab.latency_us is None:
        runs = counted(working, "board runs", "boards run")
        return f"{runs} it; there is no latency of the lab to compare with", True
    ratio = latency / lab.latency_us
    told = f"the field's median latency is {latency / 1e3:.4g} ms, {ratio:.2f} times the lab's"
    if ratio > rules.max_slowdown and latency - lab.latency_us > rules.slack_us:
        return f"{told}, more than --max-slowdown {rules.max_slowdown:g}", False
    return told, True


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
