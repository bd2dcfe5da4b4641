"""A scheduler that gives trials to the task that promises to save most of the network's time."""

from __future__ import annotations

from collections.abc import Sequence

from toolchain.tuning.schedulers.pot import GAIN, Pot, shares
from toolchain.tuning.schedulers.scheduler import Prospect, Turn

_ALPHA = 0.2  # weight of the last trials' gain, against the expected gain of the next
_WINDOW = 3  # number of batches over which the slope is computed
_WARM_UP = 0.5  # largest share of the trials for first batches, so that half of them can be directed


class Gradient:
    """Gives the next batch to the task with the largest expected gain; see `Scheduler`.

    If the network computes a task w times, and one call takes g(t) ms after t trials, one more trial is
    expected to save

        w (alpha (g(t - d) - g(t)) / d + (1 - alpha) p g(t) / t)

    ms. The first term continues the slope of the last d trials; the second optimistically assumes that t more
    trials reduce the time to zero. This is the rule of Ansor (Zheng et al., OSDI 2020, section 6; alpha = 0.2
    and a window of 3 rounds as in TVM's code) in the form of MetaSchedule (gradient_based.cc), with a new
    factor p: the probability that a turn makes the task faster, (k + 1) / (n + 2) after k of n turns did
    (Laplace's rule of succession). Without p, a task whose default is already the best gets more trials than
    one that improves, since its g stays high; most tasks on CPUs are like that. Like MetaSchedule, this
    leaves out Ansor's assumption that a task reaches a share beta of the throughput of similar tasks: one
    that cannot, such as a first convolution of three channels, would get trials for ever.

    Every task gets a first batch before any gets a second; first batches use at most half of the trials if
    there are enough. The default counts as a trial. Trials under way count as trials without a gain.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self._pot = Pot(trials, prospects, patience)
        self._weights = [prospect.weight for prospect in prospects]
        self._tasks = range(len(prospects))
        # For each task: pairs of a number of trials and the best time after them, in ms
        self._history = [[(0, prospect.default_ms)] for prospect in prospects]
        self._turns = [0] * len(prospects)
        self._gains = [0] * len(prospects)
        self._first = shares(max(len(prospects), int(trials * _WARM_UP)), self._pot.limits)
        self._served: set[int] = set()

    def next(self, batch: int) -> Turn | None:
        """Return a turn of the task with the largest expected gain."""
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
        """Record the used trials of a turn, and whether they made the task faster."""
        self._pot.take_back(turn, used, best_ms)
        history = self._history[turn.task]
        self._turns[turn.task] += 1
        self._gains[turn.task] += best_ms < (1 - GAIN) * history[-1][1]
        history.append((history[-1][0] + used, best_ms))

    def _gain(self, task: int, batch: int) -> float:
        """Return the time of the network in ms that one more trial is expected to save."""
        history, taken = self._history[task], self._pot.taken(task)
        best_ms = history[-1][1]
        begin, before_ms = next(
            (entry for entry in reversed(history) if entry[0] <= taken - _WINDOW * batch), history[0]
        )
        slope = (before_ms - best_ms) / (taken - begin) if taken > begin else 0.0
        chance = (self._gains[task] + 1) / (self._turns[task] + 2)
        hope = chance * best_ms / (1 + taken)
        return self._weights[task] * (_ALPHA * slope + (1 - _ALPHA) * hope)
