"""Transfer learning: makes a tuner learn from the stored records of other tasks and targets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any, Generic

import numpy as np

from toolchain.errors import ToolchainError
from toolchain.records.database import Selection, UnknownFunctionError
from toolchain.records.record import PASSING_FAILURES, RecordKey
from toolchain.records.store import RecordStore
from toolchain.tasks.candidate import entry_of
from toolchain.tasks.tuner import Experience, Foreign, P, Result, Space, Tuner

_LESSON = 256  # number of records of one task and target that are read, the newest first
_RECORDS = 4096  # limit over all tasks
_UNCOUNTED = 128  # the same for spaces that cannot be counted: features of a schedule take 50 ms
_BEST = 4  # number of best points of another task that are adapted


def recorded(store: RecordStore, key: RecordKey, space: Space[Any]) -> list[list[Foreign]]:
    """Return the measurements of other tasks and targets, one list for each task and target.

    Other targets are other boards, numbers of threads and devices of the same backend. Times of emulated and
    real boards do not mix, nor modelled and measured times: the ranking of one says nothing about the other.
    """
    groups: defaultdict[tuple[RecordKey, bool], dict[str, Foreign]] = defaultdict(dict)
    definitions: dict[str, str] = {}
    kept = 0
    for record in store.newest(Selection(kinds=tuple(space.kinds))):
        if record.key == key or record.key.emulated != key.emulated:
            continue
        group = groups[record.key, record.provenance.modelled]
        if record.failure in PASSING_FAILURES or record.digest in group or len(group) >= _LESSON:
            continue
        result = Result(record.run_ms, record.failure, modelled=record.provenance.modelled)
        if record.function not in definitions:
            try:
                definitions[record.function] = store.definition(record.function)
            except UnknownFunctionError:  # with its records, since these were read
                continue
        group[record.digest] = Foreign(entry_of(record), definitions[record.function], result)
        kept += 1
        if kept >= (_UNCOUNTED if space.size is None else _RECORDS):
            break
    return [list(group.values()) for group in groups.values()]


def experience_of(groups: Iterable[Sequence[Foreign]], space: Space[P]) -> Experience[P]:
    """Return the experience that measurements give about a space; those it cannot interpret are skipped."""
    lessons, tried = [], []
    for group in groups:
        lesson = []
        for foreign in group:
            try:
                lesson.append((space.foreign_features(foreign.entry, foreign.definition), foreign.result))
            except ToolchainError:
                continue
        if len(lesson) > 1:
            lessons.append(lesson)
        tried.append(_adapted(group, space))
    return Experience(lessons, _by_similarity(tried))


def _adapted(group: Sequence[Foreign], space: Space[P]) -> list[tuple[P, Sequence[float], Sequence[float]]]:
    """Return the points of a space most similar to the best of a group, with the features of both."""
    ran = sorted((each for each in group if not each.result.failure), key=lambda each: each.result.mean_ms)
    adapted = []
    for foreign in ran[:_BEST]:
        try:
            point = space.adapted(foreign.entry, foreign.definition)
            if point is not None:
                theirs = space.foreign_features(foreign.entry, foreign.definition)
                adapted.append((point, theirs, space.features(point)))
        except ToolchainError:
            continue
    return adapted


def _by_similarity(tried: Sequence[list[tuple[P, Sequence[float], Sequence[float]]]]) -> list[P]:
    """Return all points, those of the most similar task first, by the distance of their features."""
    tried = [group for group in tried if group]
    if not tried:
        return []
    every = np.asarray([row for group in tried for _point, *rows in group for row in rows], np.float64)
    scale = every.std(axis=0) + 1e-9

    def distance(group: list[tuple[P, Sequence[float], Sequence[float]]]) -> float:
        return float(
            np.mean([np.abs((np.asarray(one) - np.asarray(two)) / scale).mean() for _, one, two in group])
        )

    columns = [[point for point, *_rows in group] for group in sorted(tried, key=distance)]
    points = [point for point in chain.from_iterable(zip_longest(*columns)) if point is not None]
    return list(dict.fromkeys(points))


class Experienced(Generic[P]):
    """Wraps a tuner and reads experience for it from the store before its first proposal; see `Tuner`.

    By then other tasks of the same run have results, too.
    """

    def __init__(self, tuner: Tuner[P], space: Space[P], key: RecordKey, store: RecordStore) -> None:
        self._tuner, self._space, self._key, self._store = tuner, space, key, store
        self._begun = False

    def propose(self, count: int) -> list[P]:
        """Return the tuner's proposals, after reading the experience on the first call."""
        if not self._begun:
            self._begun = True
            if self._tuner.transfers:
                self.transfer(experience_of(recorded(self._store, self._key, self._space), self._space))
        return self._tuner.propose(count)

    @property
    def transfers(self) -> bool:
        """Whether the tuner uses experience."""
        return self._tuner.transfers

    def learn(self, measured: Sequence[tuple[P, Result]]) -> None:
        """Pass results on to the tuner."""
        self._tuner.learn(measured)

    def transfer(self, experience: Experience[P]) -> None:
        """Pass experience on to the tuner."""
        self._tuner.transfer(experience)

    def close(self) -> None:
        """Close the tuner."""
        self._tuner.close()
