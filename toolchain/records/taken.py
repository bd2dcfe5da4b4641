"""Which records builds take."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.records.ranking import rank
from toolchain.records.record import Record
from toolchain.records.store import RecordStore, Usable, anything


@dataclass(frozen=True)
class Build:
    """A sort of build: the kinds of records that it takes, and which of those.

    Attributes
    ----------
    options
        What is typed for it; empty: nothing.
    """

    kinds: tuple[str, ...]
    usable: Usable
    options: str = ""


@dataclass(frozen=True)
class Taken:
    """A record that builds take.

    Attributes
    ----------
    number
        Of the record in its store.
    options
        What is typed for each sort of build that takes it; none: no backend here knows its kind.
    """

    number: int
    record: Record
    options: tuple[str, ...]


def taken(store: RecordStore, builds: Sequence[Build], keep: int = 1) -> list[Taken]:
    """Return the records that builds take: of each key and sort of build the first ones.

    Parameters
    ----------
    builds
        The sorts of builds there are. Of a kind that none of them takes the first ones are returned as well.
    keep
        How many different candidates of each.
    """
    by_key: defaultdict[tuple[Any, ...], list[_Group]] = defaultdict(list)
    for group in store.groups():
        *key, kind, _excluded = group.of
        by_key[tuple(key)].append(_Group(kind, group.records))
    known = {kind for build in builds for kind in build.kinds}
    chosen = []
    for groups in by_key.values():
        unknown = dict.fromkeys(group.kind for group in groups if group.kind not in known)
        sorts = [*builds, *(Build((kind,), anything) for kind in unknown)]
        chosen += _of_key(groups, sorts, len(builds), keep)
    return chosen


def _of_key(groups: Sequence[_Group], sorts: Sequence[Build], known: int, keep: int) -> list[Taken]:
    """Return what the sorts of builds take of one key; the `known` first ones are those of backends."""
    records: dict[int, Record] = {}
    options: defaultdict[int, list[str]] = defaultdict(list)
    for place, build in enumerate(sorts):
        own = [group for group in groups if group.kind in build.kinds]
        digests: set[str] = set()
        for number, record in heapq.merge(*own, key=lambda numbered: rank(*numbered)):
            if record.digest in digests or not build.usable(record):
                continue
            digests.add(record.digest)
            records[number] = record
            options[number] += [build.options] if place < known else []
            if len(digests) == keep:
                break
    in_order = sorted(records.items(), key=lambda numbered: rank(*numbered))
    return [Taken(number, record, tuple(options[number])) for number, record in in_order]


class _Group:
    """A group's records in the order of preference, for several readers; each is read from the store once."""

    def __init__(self, kind: str, records: Iterator[tuple[int, Record]]) -> None:
        self.kind = kind
        self._read: list[tuple[int, Record]] = []
        self._others = records

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        at = 0
        while True:
            if at == len(self._read):
                found = next(self._others, None)
                if found is None:
                    return
                self._read.append(found)
            yield self._read[at]
            at += 1
