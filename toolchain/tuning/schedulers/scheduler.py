"""The interface of a scheduler, which chooses the task that gets the next trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolchain.tasks.task import Task
from toolchain.tuning.events import Listener, TurnBegan, TurnEnded


@dataclass(frozen=True)
class Prospect:
    """Facts about a task that are known before the search.

    Attributes
    ----------
    weight
        How many times the network calls it.
    default_ms
        Time of its default, in ms.
    left
        Number of candidates left to try; None: too many to count.
    """

    weight: int
    default_ms: float
    left: int | None


@dataclass(frozen=True)
class Turn:
    """A number of trials for a task, which stay reserved until the turn is reported.

    Attributes
    ----------
    task
        Index of the task in the run.
    """

    task: int
    trials: int


class Scheduler(Protocol):
    """Divides the trials of a run among its tasks. Several turns may be under way, also of the same task."""

    def next(self, batch: int) -> Turn | None:
        """Return the next turn; None if nothing is left, unless a turn under way returns unused trials.

        Parameters
        ----------
        batch
            Largest number of trials in a turn.
        """

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """End a turn; its unused trials may be given out again.

        Parameters
        ----------
        used
            Number of candidates that were measured; 0: the task has nothing left to try.
        best_ms
            Best time of the task so far.
        """


# Counts the trials of a run: how many are left, and how many each task may still use.

GAIN = 0.01
"""Smallest relative gain that counts as progress of a task: less is noise, even on a quiet board."""


class Pot:
    """Counts trials: those used, and those of turns under way.

    Parameters
    ----------
    trials
        Number of trials of the whole run.
    patience
        A task gets no more trials after this many in a row with less than `GAIN`; None: no such limit.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self.trials, self.patience = trials, patience
        self._limits = [prospect.left for prospect in prospects]
        self._marks = [prospect.default_ms for prospect in prospects]  # ms at the last gain
        self._vain = [0] * len(prospects)  # trials since then
        self._used = [0] * len(prospects)
        self._out = [0] * len(prospects)
        self._taken = 0  # sum over all tasks, kept since each turn asks for `left` once for every task

    @property
    def left(self) -> int:
        """Number of trials that were not given out yet."""
        return self.trials - self._taken

    @property
    def limits(self) -> list[int | None]:
        """Largest number of trials that each task can use in the whole run; None: no limit."""
        return list(self._limits)

    def taken(self, task: int) -> int:
        """Return the number of trials that a task has used or is using."""
        return self._used[task] + self._out[task]

    def room(self, task: int) -> int:
        """Return the number of trials that a task may get now."""
        limit = self._limits[task]
        room = self.left if limit is None else min(self.left, max(0, limit - self.taken(task)))
        return room if self.patience is None else min(room, self.patience - self._vain[task])

    def give(self, task: int, trials: int) -> Turn:
        """Reserve trials for a task."""
        self._out[task] += trials
        self._taken += trials
        return Turn(task, trials)

    def take_back(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count the used trials of a turn; a task that used none, or makes no progress, gets no more."""
        task = turn.task
        self._out[task] -= turn.trials
        self._used[task] += used
        self._taken += used - turn.trials
        if best_ms < (1 - GAIN) * self._marks[task]:
            self._marks[task], self._vain[task] = best_ms, 0
        else:
            self._vain[task] += used
        if not used or (self.patience is not None and self._vain[task] >= self.patience):
            self._limits[task] = self.taken(task)


def shares(trials: int, limits: Sequence[int | None]) -> list[int]:
    """Divide trials evenly among tasks, within their limits; the first tasks get the remainder."""
    given = [0] * len(limits)
    while trials and (open_ := [at for at, limit in enumerate(limits) if limit is None or given[at] < limit]):
        even, rest = divmod(trials, len(open_))
        for turn, at in enumerate(open_):
            limit = limits[at]
            more = even + (turn < rest)
            more = more if limit is None else min(more, limit - given[at])
            given[at] += more
            trials -= more
    return given


# A scheduler that gives every task the same number of trials.


class RoundRobin:
    """Gives every task the same share, one batch after the other; see `Scheduler`.

    Trials that a task cannot use go to the others.
    """

    def __init__(self, trials: int, prospects: Sequence[Prospect], patience: int | None = None) -> None:
        self._pot = Pot(trials, prospects, patience)
        self._first = 0

    def next(self, batch: int) -> Turn | None:
        """Return a turn of the next task with trials left in its share."""
        pot = self._pot
        given = shares(pot.trials, pot.limits)
        for step in range(len(given)):
            task = (self._first + step) % len(given)
            trials = min(batch, given[task] - pot.taken(task), pot.room(task))
            if trials > 0:
                self._first = task + 1
                return pot.give(task, trials)
        return None

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Count the used trials of a turn."""
        self._pot.take_back(turn, used, best_ms)


# The schedulers by name.

# A scheduler that gives trials to the task that promises to save most of the network's time.

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


MakeScheduler = Callable[[int, Sequence[Prospect], int | None], Scheduler]
"""Makes a scheduler from the number of trials, the tasks' prospects, and the patience of early stopping."""

SCHEDULERS: dict[str, MakeScheduler] = {"gradient": Gradient, "round-robin": RoundRobin}
"""Schedulers by name; the first is the default."""


# A scheduler that reports its turns to the run's listener.


class AnnouncingScheduler:
    """Wraps a scheduler and reports the beginning and end of its turns as events; see `Scheduler`."""

    def __init__(self, scheduler: Scheduler, tasks: Sequence[Task], listener: Listener) -> None:
        self._scheduler, self._tasks, self._listener = scheduler, tasks, listener

    def next(self, batch: int) -> Turn | None:
        """Return the next turn, and report that it begins."""
        turn = self._scheduler.next(batch)
        if turn is not None:
            self._listener(TurnBegan(self._tasks[turn.task], turn.trials))
        return turn

    def report(self, turn: Turn, used: int, best_ms: float) -> None:
        """Report the end of a turn to the scheduler and the listener."""
        self._scheduler.report(turn, used, best_ms)
        self._listener(TurnEnded(self._tasks[turn.task], used, best_ms))
