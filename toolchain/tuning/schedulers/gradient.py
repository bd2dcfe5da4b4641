"""Trials go where they promise to save most of the network's time."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.schedulers.pot import GAIN, Pot, shares
from toolchain.tuning.schedulers.scheduler import Prospect, Turn

_ALPHA = 0.2  # how much what the last trials brought counts, against what the next may bring
_WINDOW = 3  # batches that the slope is taken over
_WARM_UP = 0.5  # of the trials, at most: however many tasks there are, some are left to be directed


class Gradient:
    """The next batch goes to the task with the largest expected gain; see `Scheduler`.

    A task that the network computes w times, and that takes g ms after t trials, is expected to save

        w (alpha (g(t - d) - g(t)) / d + (1 - alpha) p g(t) / t)

    ms with one more trial: the slope of the last d trials goes on, or, optimistically, t more trials bring
    the time to nothing. That is the rule of Ansor (Zheng et al., OSDI 2020, section 6; alpha = 0.2 and a
    window of 3 rounds as in TVM's code) as MetaSchedule has it (gradient_based.cc), but for p: the chance
    that a turn brings anything, (k + 1) / (n + 2) after k of n turns did (Laplace's rule of succession).
    Without it a task whose default is the best there is draws more trials than one that gets faster, as its
    g stays high; on CPUs most tasks are like that. Left out here as there: Ansor's guess that a task reaches
    a part beta of the throughput of similar ones. One that cannot, such as a first convolution of three
    channels, would draw trials for ever.

    Every task gets a first batch before any gets a second, all together no more than half of the trials where
    there are enough. The default counts as a trial, and so do trials of turns that are out, as ones that
    brought nothing.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self._pot = Pot(trials, prospects, patience)
        self._weights = [prospect.weight for prospect in prospects]
        self._tasks = range(len(prospects))
        # For each task: after how many trials, and its best by then
        self._history = [[(0, prospect.default_ms)] for prospect in prospects]
        self._turns = [0] * len(prospects)
        self._gains = [0] * len(prospects)
        self._first = shares(max(len(prospects), int(trials * _WARM_UP)), self._pot.limits)
        self._served: set[int] = set()

    def next(self, batch: int) -> Turn | None:
        """Return a turn of the task that promises most."""
        open_ = [task for task in self._tasks if self._pot.room(task) > 0]
        if not open_:
            return None
        waiting = [task for task in open_ if task not in self._served]
        if waiting:
            task = waiting[0]
            trials = min(batch, self._pot.room(task), max(1, self._first[task]))
        else:
            task = max(open_, key=lambda task: self._gain(task, batch))
            trials = min(batch, self._pot.room(task))
        self._served.add(task)
        return self._pot.give(task, trials)

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count what was used, and what it brought."""
        self._pot.take_back(turn, used, best_ms)
        history = self._history[turn.task]
        self._turns[turn.task] += 1
        self._gains[turn.task] += best_ms < (1 - GAIN) * history[-1][1]
        history.append((history[-1][0] + used, best_ms))

    def _gain(self, task: int, batch: int) -> float:
        """Return what one more trial is expected to save, in ms of the network."""
        history, taken = self._history[task], self._pot.taken(task)
        best_ms = history[-1][1]
        begin, before_ms = next(
            (entry for entry in reversed(history) if entry[0] <= taken - _WINDOW * batch), history[0]
        )
        slope = (before_ms - best_ms) / (taken - begin) if taken > begin else 0.0
        chance = (self._gains[task] + 1) / (self._turns[task] + 2)
        hope = chance * best_ms / (1 + taken)
        return self._weights[task] * (_ALPHA * slope + (1 - _ALPHA) * hope)
