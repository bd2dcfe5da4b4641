"""Tunes one task in a run: measures its default, searches, and stores the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal

from toolchain.errors import ToolchainError
from toolchain.records.record import PASSING_FAILURES, Record
from toolchain.tasks.candidate import Candidate, entry_of, unbelievable
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import P, Result, Space, Tuner
from toolchain.tuning.context import RunContext, earlier_records
from toolchain.tuning.events import Trial
from toolchain.tuning.judging.confirm import Confirmed, Finalist, Measured, result_of
from toolchain.tuning.plans.answers import were_others_there
from toolchain.tuning.result import TunedTask

# Failures that a task's code causes; other tasks may run well on the same boards.
_OF_THE_CODE = frozenset({"build", "wrong result", "work group", "registers"})
_SHARE = 2  # candidates for each board between two checks whether the search is over


@dataclass(frozen=True)
class Proposal(Generic[P]):
    """A point that a tuner proposes, and its candidate."""

    point: P
    candidate: Candidate


class BadDefaultError(ToolchainError):
    """The default of a task does not compile, computes wrong outputs, or asks too much of its device."""


class TaskRun(Generic[P]):
    """Tunes one task and stores every measurement at once. Call `begin` first.

    Attributes
    ----------
    default
        The default, as `begin` measured it.
    unchecked
        Whether the choice of an earlier run could not be checked, because no board was there.
    left
        Number of points that were not measured yet when the run began; None: too many to count.
    """

    default: Finalist[P]
    left: int | None
    _function: str  # id of the task's function in the store; see `RecordStore.add_function`

    def __init__(self, task: Task, space: Space[P], tuner: Tuner[P], context: RunContext) -> None:
        self.task, self.space, self.tuner = task, space, tuner
        self.context = context
        self.key = context.key_of(task.workload)
        self.known: dict[str, Record] = {}
        self.trials = 0
        self.failures: Counter[str] = Counter()
        self.boards: Counter[str] = Counter()
        self.beside_others = 0  # trials during which other processes computed on the device
        self.first_failure = ""
        self.modelled = False
        self.unchecked = False
        self.measured: list[Measured[P]] = []
        self._own: set[str] = set()  # digests of the points that this run proposed
        self._out_of_proposals = False

    def begin(self) -> None:
        """Measure the default, and teach the tuner the results of earlier runs.

        This shows that the board can be used, and gives the time to beat. If builds use a point because of a
        modelled record or one of another target, it is measured, too: builds prefer records that were
        measured here, and must not become slower by that.

        Raises
        ------
        BadDefaultError
            The default's code is at fault.
        ToolchainError
            The default does not run, so no candidate would; or the board went away.
        """
        task, context = self.task, self.context
        self._function = context.store.add_function(task.workload, task.name, task.definition)
        context.evaluator.runner.expect(task, context.cases.of(task))
        self.default, result = self._measure_default()
        earlier = [] if context.fresh else self._earlier()
        earlier += self._measure_recorded()
        # Stored, so that after an interrupted run builds use nothing slower than the default.
        context.store.add(self.default.record)
        self.left = self._left([point for point, _result in earlier])
        self.tuner.learn([(self.space.default(), result), *earlier])

    @property
    def default_ms(self) -> float:
        """Time of the default, in ms."""
        return self.default.result.mean_ms

    @property
    def best_ms(self) -> float:
        """Best time of the task so far, in ms, the default included."""
        return min([self.default_ms, *(each.result.mean_ms for each in self.measured)])

    def propose(self, count: int) -> list[Proposal[P]]:
        """Return at most `count` candidates to measure next; an empty list if nothing is left.

        If the store has a result of a proposed point, from another run, the tuner learns it at once, and the
        point is no trial of this run. Two runs measure the same point only if they do so at the same time.
        """
        if not self.context.fresh:
            self._look_again()
        while points := self.tuner.propose(count):
            known = {point: self.known.get(self.space.entry(point).digest) for point in points}
            if answered := [(point, result_of(record)) for point, record in known.items() if record]:
                self.tuner.learn(answered)
            if new := [point for point in points if not known[point]]:
                self._own.update(self.space.entry(point).digest for point in new)
                return [Proposal(point, self.space.candidate(point)) for point in new]
        self._out_of_proposals = True
        return []

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to measure."""
        return self._out_of_proposals or (self.left is not None and self.trials >= self.left)

    def _look_again(self) -> None:
        """Read the records that other runs have stored since the last look."""
        there = self.known.keys() | self._own | {self.default.record.digest}
        if self.context.store.measured(self.key) - there:
            self._earlier()

    def measure(
        self, proposals: Sequence[Proposal[P]], over: Callable[[], bool] = lambda: False
    ) -> list[tuple[BuiltCandidate, Result]]:
        """Build all proposals and run them until `over` is true; return the results of those that ran."""
        evaluator = self.context.evaluator
        built = evaluator.builder.build([proposal.candidate for proposal in proposals])
        results: list[Result] = []
        while len(results) < len(built) and not over():
            at = len(results)
            results += evaluator.runner.run(
                self.task, built[at : at + _SHARE * max(1, evaluator.runner.lanes)]
            )
        return list(zip(built, results, strict=False))

    def record(
        self, proposals: Sequence[Proposal[P]], measured: Sequence[tuple[BuiltCandidate, Result]]
    ) -> None:
        """Store the results and report them to the listener."""
        for proposal, (built, result) in zip(proposals, measured, strict=True):
            record = self._record(built, result, next(self.context.numbers))
            self.context.store.add(record)
            self._count(Measured(proposal.point, record, result))

    def learn(
        self, proposals: Sequence[Proposal[P]], measured: Sequence[tuple[BuiltCandidate, Result]]
    ) -> None:
        """Teach the tuner the results of its proposals."""
        results = [result for _built, result in measured]
        self.tuner.learn([(p.point, result) for p, result in zip(proposals, results, strict=True)])

    def settle(self, finalists: Sequence[Finalist[P]], confirmed: Confirmed) -> TunedTask:
        """Store the choice of the final comparison, and return the task's result."""
        # The winner may come from an earlier run, with other exclusions and versions.
        found, own = confirmed.choice.provenance, self.context.provenance
        trial = found.trial if found.run == own.run else None
        provenance = replace(
            own, board=found.board, trial=trial, excluded=self.space.excluded, modelled=found.modelled
        )
        choice = replace(confirmed.choice, provenance=provenance)
        self.context.store.add(choice)
        winner = next(each for each in finalists if each.record.digest == choice.digest)
        return TunedTask(
            self.task,
            self.trials,
            self.failures.total(),
            self.default.record,
            confirmed.default_ms,
            choice,
            self.space.rule(winner.point),
            self.modelled,
        )

    def unsettled(self) -> TunedTask:
        """Return the task's result by its trials alone, because there was no time for a comparison."""
        best = self.context.store.best(self.key, self.space.kinds, self._usable) or self.default.record
        # Its time beside the default's: that of a trial, and not one in a network.
        trials = {record.digest: record for record in self.known.values() if not record.confirmed}
        trials |= {each.record.digest: each.record for each in self.measured}
        best = trials.get(best.digest, best)
        try:
            rule = self.space.rule(self.point(best))
        except ToolchainError:  # a build would not use it either
            best, rule = self.default.record, "default"
        return TunedTask(
            self.task,
            self.trials,
            self.failures.total(),
            self.default.record,
            self.default_ms,
            best,
            rule,
            self.modelled,
        )

    def _usable(self, record: Record) -> bool:
        """Whether a build would use a record."""
        return not unbelievable(record, self.task) and self.space.usable(record)

    def refuse(self, built: BuiltCandidate, result: Result) -> None:
        """Store the failure of a candidate that ran before."""
        self.context.store.add(self._record(built, result))

    def point(self, record: Record) -> P:
        """Return the point of a record.

        Raises
        ------
        ToolchainError
            It is not in this space.
        """
        return self.space.read(entry_of(record), self.context.store.definition(record.function))

    def _earlier(self) -> list[tuple[P, Result]]:
        """Return the results of earlier runs, whose points are not measured again."""
        self.known = earlier_records(self.context.store, self.key, self.task, modelled=self.modelled)
        found = []
        for row in self.known.values():
            try:
                found.append((self.point(row), result_of(row)))
            except ToolchainError:
                continue  # it no longer applies
        return found

    def _left(self, earlier: Sequence[P]) -> int | None:
        size = self.space.size
        if size is None:
            return None
        known = {self.space.default(), *earlier}  # may contain points of another version's space
        return sum(self.space.point(index) not in known for index in range(size))

    def _measure_default(self) -> tuple[Finalist[P], Result]:
        point = self.space.default()
        built, result = self._check(self.space.candidate(point))
        if result.failure:
            where = result.board or ", ".join(self.context.evaluator.runner.names)
            message = (
                f"the default of task {self.task.id} ({self.task.name}) fails on board {where}: "
                f"{result.failure}: {result.message}"
            )
            if result.failure in _OF_THE_CODE:
                raise BadDefaultError(
                    message, f"`toolchain tasks` with --show {self.task.id} --code shows what was generated"
                )
            raise ToolchainError(
                message, "`toolchain doctor` and `toolchain board show` check host and board"
            )
        self.modelled = result.modelled
        default = Finalist(point, self._record(built, result), result, built)
        self._tell("default", result, result.mean_ms)
        return default, result

    def _check(self, candidate: Candidate) -> tuple[BuiltCandidate, Result]:
        evaluator = self.context.evaluator
        (built,) = evaluator.builder.build([candidate])
        (result,) = evaluator.runner.check(self.task, [built])
        return built, result

    def _measure_recorded(self) -> list[tuple[P, Result]]:
        point = self.context.recorded.get(self.task.workload)
        if point is None or self.space.entry(point).digest in {self.default.record.digest, *self.known}:
            return []
        try:
            candidate = self.space.candidate(point)
        except ToolchainError:  # a build would not use it either
            return []
        built, result = self._check(candidate)
        if result.failure in PASSING_FAILURES:  # nothing is stored: builds would take the default instead
            raise ToolchainError(
                f"task {self.task.id} ({self.task.name}): what builds use today could not be measured "
                f"on board {result.board}: {result.failure}: {result.message}",
                "run it again when the board can be reached; `toolchain board show` checks it",
            )
        if result.failure:
            self.refuse(built, result)
        else:
            record = self._record(built, result)
            self.context.store.add(record)
            self.measured.append(Measured(point, record, result))
        self._tell("recorded", result, self.best_ms)
        return [(point, result)]

    def _count(self, measured: Measured[P]) -> None:
        result = measured.result
        self.trials += 1
        if result.board:
            self.boards[result.board] += 1
        self.beside_others += were_others_there(result.conditions)
        if result.failure:
            self._fail(result)
        else:
            self.measured.append(measured)
        self._tell("search", result, self.best_ms)

    def _tell(self, stage: Literal["default", "recorded", "search"], result: Result, best_ms: float) -> None:
        self.context.listener(
            Trial(
                self.task,
                stage,
                None if result.failure else result.mean_ms,
                best_ms,
                result.failure,
                result.message,
                result.board,
                result.temperature_c,
            )
        )

    def _fail(self, result: Result) -> None:
        self.failures[result.failure or ""] += 1
        self.first_failure = self.first_failure or f"{result.failure}: {result.message}"

    def _record(self, built: BuiltCandidate, result: Result, trial: int | None = None) -> Record:
        entry = built.candidate.entry
        return Record(
            key=self.key,
            function=self._function,
            kind=entry.kind,
            payload=entry.payload,
            digest=entry.digest,
            provenance=replace(
                self.context.provenance,
                board=result.board or self.context.provenance.board,
                trial=trial,
                governor=result.governor,
                temperature_c=result.temperature_c,
                conditions=result.conditions,
                excluded=self.space.excluded,
                modelled=result.modelled,
            ),
            run_ms=result.run_ms,
            failure=result.failure,
        )
