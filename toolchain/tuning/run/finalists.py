"""Selects the finalists of a task: the fastest candidates whose outputs are right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.records.record import PASSING_FAILURES
from toolchain.records.store import Usable
from toolchain.tuning.judging.confirm import Finalist, Measured, result_of
from toolchain.tuning.task_run import TaskRun

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
