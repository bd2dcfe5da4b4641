"""The records that builds use."""

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
class BuildVariant:
    """A variant of builds, by its options: the kinds of records it considers, and which of them it can use.

    Attributes
    ----------
    options
        Command-line options of this build variant; empty for the default build.
    """

    kinds: tuple[str, ...]
    usable: Usable
    options: str = ""


@dataclass(frozen=True)
class Taken:
    """A record that builds use.

    Attributes
    ----------
    number
        Row id of the record in its store.
    options
        Command-line options of each build variant that uses it; empty if no backend here knows its kind.
    """

    number: int
    record: Record
    options: tuple[str, ...]


def taken(store: RecordStore, builds: Sequence[BuildVariant], keep: int = 1) -> list[Taken]:
    """Return the best records for each key and build variant.

    Parameters
    ----------
    builds
        The build variants. A kind that none of them uses counts as a build variant of its own.
    keep
        How many different candidates to return for each key and build variant.
    """
    by_key: defaultdict[tuple[Any, ...], list[_Group]] = defaultdict(list)
    for group in store.groups():
        *key, kind, _excluded = group.of
        by_key[tuple(key)].append(_Group(kind, group.records))
    known = {kind for build in builds for kind in build.kinds}
    chosen = []
    for groups in by_key.values():
        unknown = dict.fromkeys(group.kind for group in groups if group.kind not in known)
        variants = [*builds, *(BuildVariant((kind,), anything) for kind in unknown)]
        chosen += _of_key(groups, variants, len(builds), keep)
    return chosen


def _of_key(groups: Sequence[_Group], variants: Sequence[BuildVariant], known: int, keep: int) -> list[Taken]:
    """Return the records of one key that builds use; the first `known` build variants are of backends."""
    records: dict[int, Record] = {}
    options: defaultdict[int, list[str]] = defaultdict(list)
    for place, build in enumerate(variants):
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
    """Records of a group in the order of preference, cached for several readers."""

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
