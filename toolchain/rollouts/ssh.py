"""The carrier `ssh`: hosts reach boards themselves, phase after phase, with a gate between."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from toolchain.boards.board import Board
from toolchain.boards.power.cycles import PowerCycles
from toolchain.events.rollouts import (
    AnyEvent,
    BoardCycled,
    BoardDone,
    BoardMoved,
    BoardOutcome,
    GateJudged,
    LabNumbers,
    PhaseStarted,
    RolloutEnded,
    RolloutResumed,
    Rules,
)
from toolchain.quantities import counted
from toolchain.releases.export import Delivery
from toolchain.rollouts.attempt import Job
from toolchain.rollouts.carrier import Ability, Carrier, Events
from toolchain.rollouts.course import Course
from toolchain.rollouts.fleet import (
    BoardApp,
    PlannedInstall,
    fleet_status,
    lost_release,
    prepare_programs,
    preview,
)
from toolchain.rollouts.rollback import roll_back


class SshCarrier(Carrier[Course]):
    """Talks to `edge-rt` on each board: over SSH, or on boards of this host in their folders."""

    name = "ssh"
    reaches = "boards"
    can = frozenset[Ability]({"phases", "preview", "status", "rollback"})

    def send(self, delivery: Delivery, place: Course, stop: threading.Event) -> Events:
        """Roll the release out."""
        return Rollout(place, delivery, stop).run()

    def prepare(self, boards: Iterable[Board], progress: Callable[[str], None]) -> None:
        """Compile each `edge-rt` that the boards need."""
        prepare_programs(boards, progress)

    def preview(self, delivery: Delivery, boards: Sequence[Board], at_once: int) -> list[PlannedInstall]:
        """Ask the boards what they have."""
        return preview(boards, delivery, at_once)

    def status(self, boards: Sequence[Board], at_once: int) -> list[BoardApp]:
        """Ask the boards what they run."""
        return fleet_status(boards, at_once)

    def roll_back(
        self, boards: Sequence[Board], app: str | None, at_once: int
    ) -> Generator[BoardDone, None, None]:
        """Let the boards go back, each once."""
        return roll_back(boards, app, at_once)


# Runs the jobs of a phase in threads, with later tries, until all have ended or the user stops them.

_TICK_S = 0.2


@dataclass
class JobPool:
    """The jobs of a phase, `at_once` at the same time.

    Attributes
    ----------
    waiting
        Jobs that have not begun; those that are left after `results` never did.
    stop
        No job begins any more once it is set; those at work end by themselves.
    open
        Whether other jobs may begin; whoever takes results may close it.
    """

    waiting: list[Job]
    at_once: int
    stop: threading.Event
    open: bool = True
    _again: list[Job] = field(default_factory=list)
    _results: queue.SimpleQueue[tuple[Job, BoardOutcome | BaseException | None]] = field(
        default_factory=queue.SimpleQueue
    )

    def results(self) -> Iterator[tuple[Job, BoardOutcome] | None]:
        """Run the jobs; yield each with its outcome as it ends, and None several times a second."""
        at_work = 0
        while at_work or ((self.waiting or self._again) and self._may_begin):
            while at_work < self.at_once and self._may_begin and (job := self._next()) is not None:
                at_work += 1
                self._start(job)
            try:
                job, result = self._results.get(timeout=_TICK_S)
            except queue.Empty:
                yield None
                continue
            at_work -= 1
            if isinstance(result, BaseException):
                raise result
            if result is None:
                self._again.append(job)
            yield None if result is None else (job, result)
        for job in self._again:
            yield job, job.give_up()

    @property
    def _may_begin(self) -> bool:
        return self.open and not self.stop.is_set()

    def _next(self) -> Job | None:
        """Take the next job that may begin: one that was never tried comes first."""
        if self.waiting:
            return self.waiting.pop(0)
        due = next((job for job in self._again if job.not_before <= time.monotonic()), None)
        if due is not None:
            self._again.remove(due)
        return due

    def _start(self, job: Job) -> None:
        def run() -> None:
            try:
                self._results.put((job, job.run()))
            except BaseException as error:  # for the thread that waits
                self._results.put((job, error))

        threading.Thread(target=run, name=f"rollout {job.board.name}", daemon=True).start()


# Judges a phase: whether the next one may begin.


def judge(
    phase: int,
    boards: Sequence[str],
    outcomes: Mapping[str, BoardOutcome],
    lab: LabNumbers | None,
    rules: Rules,
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
    failed = sum(outcome.failed for outcome in outcomes.values())
    working = sum(outcome.works for outcome in of_phase)
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
    comparison = f"the field's median latency is {latency / 1e3:.4g} ms, {ratio:.2f} times the lab's"
    if ratio > rules.max_slowdown and latency - lab.latency_us > rules.slack_us:
        return f"{comparison}, more than --max-slowdown {rules.max_slowdown:g}", False
    return comparison, True


_STOPPED = "it was stopped"
_SWITCH_S = 120.0  # for a board that is just being switched when the rollout ends

Moves = Iterator[AnyEvent]


class Rollout:
    """A rollout at work; it yields its events, and goes on once each was taken.

    Attributes
    ----------
    outcomes
        Outcomes of the boards that have ended; those of an earlier command too.
    stop
        Set to end the rollout: no board begins, boards that receive stop and can be resumed.
    cycles
        Power-cycles boards that went silent.
    """

    def __init__(self, course: Course, delivery: Delivery, stop: threading.Event) -> None:
        self.course, self.delivery, self.stop = course, delivery, stop
        self.outcomes = dict(course.outcomes)
        self.cycles = PowerCycles()
        self._moves: queue.SimpleQueue[BoardMoved | BoardCycled] = queue.SimpleQueue()

    def run(self) -> Events:
        """Run the phases to their end; `RolloutEnded` comes last."""
        yield RolloutResumed() if self.course.resumed else self.course.began
        try:
            reason = yield from self._phases()
        finally:
            self.cycles.finish_switching(_SWITCH_S)  # else a board could stay without power
        yield from self._taken_moves()
        yield RolloutEnded(complete=not reason, reason=reason)

    def _phases(self) -> Generator[AnyEvent, None, str]:
        """Run the phases that an earlier command left; return why the rollout ends before the last one."""
        phases = self.course.began.phases
        for number, names in enumerate(phases, 1):
            done = all(self._works(name) for name in names)
            if done and number in self.course.passed:
                continue
            if not done:
                yield PhaseStarted(phase=number)
                yield from self._run_phase(number, names)
            if self.stop.is_set():
                return _STOPPED
            gate = yield from self._gate(number, names, last=number == len(phases))
            yield from self._taken_moves()
            yield gate
            if not gate.passed:
                return gate.reason
        return ""

    def _works(self, name: str) -> bool:
        return name in self.outcomes and self.outcomes[name].works

    def _run_phase(self, number: int, names: Sequence[str]) -> Moves:
        rules = self.course.began.rules
        left = [name for name in names if not self._works(name)]
        for name in left:
            self.outcomes.pop(name, None)  # of an earlier command
        jobs = [
            Job(
                self.course.boards[name],
                self.delivery,
                rules.window_s,
                self.stop,
                self._moves.put,
                cycles=self.cycles,
            )
            for name in left
        ]
        pool = JobPool(jobs, rules.at_once, self.stop)
        for ended in pool.results():
            yield from self._taken_moves()
            if ended is not None:
                job, outcome = ended
                yield self._done(number, job, outcome)
            failed = sum(outcome.failed for outcome in self.outcomes.values())
            pool.open = pool.open and failed <= rules.max_failures
        for job in pool.waiting:
            yield self._done(
                number, job, BoardOutcome(state="skipped", error="the rollout ended before its turn")
            )

    def _done(self, phase: int, job: Job, outcome: BoardOutcome) -> BoardDone:
        self.outcomes[job.board.name] = outcome
        return BoardDone(board=job.board.name, phase=phase, outcome=outcome)

    def _gate(
        self, number: int, names: Sequence[str], *, last: bool
    ) -> Generator[AnyEvent, None, GateJudged]:
        """Judge a phase; before another one, wait and look at its boards again."""
        began, rules = self.course.began, self.course.began.rules
        gate = judge(number, names, self.outcomes, began.lab, rules)
        if not gate.passed or last or not rules.pause_s:
            return gate
        deadline = time.monotonic() + rules.pause_s
        while time.monotonic() < deadline and not self.stop.wait(min(1.0, rules.pause_s)):
            yield from self._taken_moves()
        if self.stop.is_set():
            return gate.model_copy(update={"passed": False, "reason": _STOPPED})
        working = [self.course.boards[name] for name in names if self._works(name)]
        lost = lost_release(working, began.app, began.version, rules.at_once)
        if lost:
            reason = f"after the pause, {', '.join(lost)} did not run the release any more"
            return gate.model_copy(update={"passed": False, "reason": reason})
        return gate

    def _taken_moves(self) -> Moves:
        while not self._moves.empty():
            yield self._moves.get()
