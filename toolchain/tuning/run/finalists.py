"""Which candidates may become a task's choice: the fastest ones that compute what the task is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.records.store import Usable
from toolchain.tuning.judging.confirm import Finalist, Measured, result_of
from toolchain.tuning.task_run import TaskRun

_OF_THIS_RUN = 2
# What fills fewer caches may look slower alone than it is among others; by more than this it is slower.
_HOPELESS = 1.05


def finalists(run: TaskRun[Any]) -> list[Finalist[Any]]:
    """Return a task's default, the best of this run, and the choices of earlier runs, each of them checked.

    What computes something else than the task's definition is kept as a failure, and the next best is taken
    in its place.
    """
    return _Finalists(run).all()


class _Finalists:
    def __init__(self, run: TaskRun[Any]) -> None:
        self.run, self.context, self.space = run, run.context, run.space
        self.standing = [run.default]
        self.refused: set[str] = set()

    def all(self) -> list[Finalist[Any]]:
        fast = [each for each in self.run.measured if each.result.mean_ms < _HOPELESS * self.run.default_ms]
        for candidate in sorted(fast, key=lambda each: each.result.mean_ms):
            if len(self.standing) > _OF_THIS_RUN:
                break
            self._take(candidate)
        if not self.context.fresh:
            for usable in (self.space.usable, self.space.allowed):
                for earlier in self._choices(usable):
                    if earlier.record.digest in self._digests or self._take(earlier):
                        break
        return self.standing

    @property
    def _digests(self) -> set[str]:
        return {finalist.record.digest for finalist in self.standing}

    def _choices(self, usable: Usable) -> Iterator[Measured[Any]]:
        """Yield the choice of earlier runs; then the next best, while those before are refused."""
        while True:
            record = self.context.store.best(
                self.run.key, self.space.kinds, lambda one: usable(one) and one.digest not in self.refused
            )
            if record is None:
                return
            try:
                candidate = Measured(self.run.point(record), record, result_of(record))
            except ToolchainError:  # it no longer applies: a build would not take it either
                self.refused.add(record.digest)
                continue
            yield candidate

    def _take(self, candidate: Measured[Any]) -> bool:
        """Let a candidate compute every case of the task on a board; return whether it stands."""
        evaluator = self.context.evaluator
        try:
            (built,) = evaluator.builder.build([self.space.candidate(candidate.point)])
        except ToolchainError:  # it no longer applies
            self.refused.add(candidate.record.digest)
            return False
        (result,) = evaluator.runner.check(self.run.task, [built])
        if result.failure:
            self.run.refuse(built, result)
            self.refused.add(candidate.record.digest)
            return False
        self.standing.append(Finalist(candidate.point, candidate.record, candidate.result, built))
        return True
