"""Removes records from a store: unreadable ones, and all but the best."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.records.database import rank
from toolchain.records.record import Record
from toolchain.records.store import RecordStore, Usable, anything

# Removes unreadable records from a store.

_NAMED = 3  # rows in a warning


def unreadable_warning(store: RecordStore) -> str | None:
    """Return the warning about unreadable rows that a command skipped; None if there were none."""
    rows = store.unreadable
    if not rows:
        return None
    count = counted(len(rows), "unreadable record")
    named = "; ".join(f"row {number}: {problem}" for number, problem in list(rows.items())[:_NAMED])
    more = f"; and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"skipped {count} of {store.name}: {named}{more}; `toolchain records repair` removes them"


def repair(store: RecordStore, *, dry_run: bool = False) -> dict[int, str]:
    """Remove unreadable records; return what is wrong with each, by its row.

    Parameters
    ----------
    dry_run
        Change nothing.

    Raises
    ------
    ToolchainError
        The database refused; nothing was removed.
    """
    store.look_at_all()
    if store.unreadable and not dry_run:
        store.remove(list(store.unreadable))
    return store.unreadable


# The records that builds use.


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
class UsedRecord:
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


def used_records(store: RecordStore, builds: Sequence[BuildVariant], keep: int = 1) -> list[UsedRecord]:
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


def _of_key(
    groups: Sequence[_Group], variants: Sequence[BuildVariant], known: int, keep: int
) -> list[UsedRecord]:
    """Return the records of one key that builds use; the first `known` build variants are of backends."""
    records: dict[int, Record] = {}
    options: defaultdict[int, list[str]] = defaultdict(list)
    for place, build in enumerate(variants):
        considered = [group for group in groups if group.kind in build.kinds]
        digests: set[str] = set()
        for number, record in heapq.merge(*considered, key=lambda numbered: rank(*numbered)):
            if record.digest in digests or not build.usable(record):
                continue
            digests.add(record.digest)
            records[number] = record
            options[number] += [build.options] if place < known else []
            if len(digests) == keep:
                break
    in_order = sorted(records.items(), key=lambda numbered: rank(*numbered))
    return [UsedRecord(number, record, tuple(options[number])) for number, record in in_order]


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
                following = next(self._others, None)
                if following is None:
                    return
                self._read.append(following)
            yield self._read[at]
            at += 1


@dataclass(frozen=True)
class Distilled:
    """How many records `distill` kept and removed, or would keep and remove."""

    kept: int
    removed: int
    removed_failures: int


def distill(
    store: RecordStore, builds: Sequence[BuildVariant], keep: int, *, failures: bool, dry_run: bool = False
) -> Distilled:
    """Remove all but the best records for each key and build variant, and functions without records.

    Builds still choose the same records. The next tuning run may measure removed candidates again.

    Parameters
    ----------
    builds
        The variants of builds (such as with another `--winograd`), with the kinds of records that each uses.
    keep
        How many different candidates to keep for each key and build variant.
    failures
        Keep the records of failed candidates, so that they are not tried again.
    dry_run
        Change nothing.

    Raises
    ------
    ToolchainError
        The database refused and nothing was removed; or records were removed but the file could not shrink.
    """
    for _record in store.newest():  # reading every record finds the unreadable ones
        pass
    # In this order: what another process stores meanwhile is not among these, and stays.
    timed, everything = store.numbers(failures=False), store.numbers(failures=True)
    best = {entry.number for entry in used_records(store, builds, keep)}
    keeping = best | store.unreadable.keys()  # `repair` removes those
    drop = [number for number in (timed if failures else everything) if number not in keeping]
    failed = len(set(drop) - set(timed))
    if not dry_run and drop:
        store.remove(drop)
        try:
            store.compact()
        except ToolchainError as error:
            raise ToolchainError(
                f"{counted(len(drop), 'record was', 'records were')} removed, but {store.name} is as large "
                f"as before: {error.message}",
                error.hint,
            ) from error
    return Distilled(len(everything) - len(drop), len(drop) - failed, failed)
