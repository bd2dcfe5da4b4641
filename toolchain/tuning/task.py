"""One task in a tuning run: its baseline, its search, its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean

from toolchain.backends.tensorir.traces import function_json
from toolchain.errors import ToolchainError
from toolchain.lowering.tasks import Task
from toolchain.records.key import RecordKey
from toolchain.records.record import Provenance, Record
from toolchain.records.store import RecordStore, Usable
from toolchain.tuning.candidate import Candidate, Search
from toolchain.tuning.compile import Compiled
from toolchain.tuning.confirm import Finalist
from toolchain.tuning.events import Listener, Trial
from toolchain.tuning.measure import Measured
from toolchain.tuning.workbench import Workbench


@dataclass(frozen=True)
class RunContext:
    """What all tasks of a run share.

    Attributes
    ----------
    provenance
        Of a record, but for what depends on the board that measured.
    fresh
        Nothing of earlier runs is used.
    key_of
        Workload hash -> key of its records.
    kinds, usable
        Of the records that a build would take, and which of them.
    allowed
        Which of them can be measured again, whatever their run left out.
    """

    bench: Workbench
    store: RecordStore
    provenance: Provenance
    listener: Listener
    fresh: bool
    key_of: Callable[[str], RecordKey]
    kinds: tuple[str, ...]
    usable: Usable
    allowed: Usable


class TaskRun:
    """Tunes one task and writes every measurement to the store at once.

    It begins by building, uploading, running and timing what a build takes without a record (the default):
    then the way is known to be open, and the mark is set.

    Raises
    ------
    ToolchainError
        The default does not run: nothing that is searched would.
    """

    def __init__(self, task: Task, search: Search, context: RunContext) -> None:
        self.task, self.search = task, search
        self.context = context
        self.key = context.key_of(task.workload)
        self.function = context.store.add_function(task.workload, task.name, function_json(task.func))
        self.known: dict[str, Record] = {}
        self.trials = 0
        self.failures: Counter[str] = Counter()
        self.boards: Counter[str] = Counter()
        self.first_failure = ""
        self.best: Finalist | None = None
        self.default = self._measure_default()
        if not context.fresh:
            wanted = context.store.measured(self.key)
            self.known = {row.digest: row for row in context.store.all(self.key) if row.digest in wanted}
        if self.known:
            search.learn_earlier(context.store, self.key)

    @property
    def default_ms(self) -> float:
        """Of the default."""
        return fmean(self.default.record.run_ms)

    @property
    def best_ms(self) -> float:
        """Of the default and everything searched so far."""
        return min(self.default_ms, fmean(self.best.record.run_ms)) if self.best else self.default_ms

    def run(self, trials: int, batch: int) -> Iterator[None]:
        """Search; each step measures one batch.

        What an earlier run measured is answered from the store and is no trial of this one.
        """
        with self.search.batches(trials, batch) as batches:
            for candidates in batches:
                self.search.learn(self._results(candidates))
                yield

    def finalists(self) -> list[Finalist]:
        """Return the default, the best of this run, and the choices of earlier runs."""
        found = [self.default, *([self.best] if self.best else [])]
        if self.context.fresh:
            return found
        store = self.context.store
        for usable in (self.context.usable, self.context.allowed):
            earlier = store.best(self.key, self.context.kinds, usable)
            if earlier is None or earlier.digest in {finalist.record.digest for finalist in found}:
                continue
            try:
                candidate = self.search.recorded(earlier, store.definition(earlier.function))
            except ToolchainError:  # it no longer applies: a build would not take it either
                continue
            found.append(Finalist(earlier, self.context.bench.compile([candidate])[0]))
        return found

    def _measure_default(self) -> Finalist:
        candidate = self.search.default()
        compiled, result = self._measure([candidate])[0]
        if result.failure:
            raise ToolchainError(
                f"the default of task {self.task.id} ({self.task.name}) fails on board "
                f"{result.board or self.context.bench.boards[0].name}: {result.failure}: {result.message}",
                "`toolchain doctor` and `toolchain board show` check host and board",
            )
        default = Finalist(self._record(candidate, result), compiled)
        taken = fmean(result.run_ms)
        self.context.listener(Trial(self.task, "default", taken, taken, board=result.board))
        return default

    def _results(self, candidates: list[Candidate]) -> list[Measured]:
        answers = {
            place: Measured(self.known[candidate.digest].run_ms, self.known[candidate.digest].failure)
            for place, candidate in enumerate(candidates)
            if candidate.digest in self.known
        }
        new = [place for place in range(len(candidates)) if place not in answers]
        measured = self._measure([candidates[place] for place in new])
        for place, (compiled, result) in zip(new, measured, strict=True):
            answers[place] = result
            record = self._record(candidates[place], result)
            self.context.store.add(record)
            self._count(record, compiled, result)
        return [answers[place] for place in range(len(candidates))]

    def _measure(self, candidates: list[Candidate]) -> list[tuple[Compiled, Measured]]:
        compiled = self.context.bench.compile(candidates)
        return list(zip(compiled, self.context.bench.measure(self.task, compiled), strict=True))

    def _count(self, record: Record, compiled: Compiled, result: Measured) -> None:
        self.trials += 1
        if result.board:
            self.boards[result.board] += 1
        taken = None
        if result.failure:
            self.failures[result.failure] += 1
            self.first_failure = self.first_failure or f"{result.failure}: {result.message}"
        else:
            taken = fmean(result.run_ms)
            if self.best is None or taken < fmean(self.best.record.run_ms):
                self.best = Finalist(record, compiled)
        self.context.listener(
            Trial(
                self.task, "search", taken, self.best_ms, result.failure, result.message, board=result.board
            )
        )

    def _record(self, candidate: Candidate, result: Measured) -> Record:
        return Record(
            key=self.key,
            function=self.function,
            kind=candidate.kind,
            payload=candidate.payload,
            digest=candidate.digest,
            provenance=replace(
                self.context.provenance,
                board=result.board or self.context.provenance.board,
                governor=result.governor,
                temperature_c=result.temperature_c,
            ),
            run_ms=result.run_ms,
            failure=result.failure,
        )
