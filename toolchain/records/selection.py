"""Which records are meant: those that builds take, or some of them by task, board class and kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolchain.records.key import RecordKey
from toolchain.records.record import Record
from toolchain.records.store import Usable


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
class Selection:
    """Some of the records; what is empty leaves nothing out.

    Attributes
    ----------
    tasks
        Beginnings of the workloads' hashes, as `toolchain tasks` prints them.
    """

    tasks: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def __contains__(self, record: Record) -> bool:
        return (
            (not self.tasks or record.key.workload.startswith(self.tasks))
            and (not self.classes or record.key.board_class in self.classes)
            and (not self.kinds or record.kind in self.kinds)
        )


def taken(
    ranked: Iterable[tuple[int, Record]], builds: Sequence[Build], keep: int = 1
) -> list[tuple[int, Record]]:
    """Return the records that builds take: of each key and sort of build the first ones.

    Parameters
    ----------
    ranked
        What `RecordStore.ranked` gives.
    builds
        The sorts of builds there are. Of a kind that none of them takes the first ones are returned as well.
    keep
        How many different candidates of each.
    """
    known = {kind for build in builds for kind in build.kinds}
    digests: defaultdict[tuple[RecordKey, int | str], set[str]] = defaultdict(set)
    chosen = []
    for number, record in ranked:
        if record.kind in known:
            sorts: list[int | str] = [
                place
                for place, build in enumerate(builds)
                if record.kind in build.kinds and build.usable(record)
            ]
        else:
            sorts = [record.kind]
        wanting = [
            have
            for sort in sorts
            if len(have := digests[record.key, sort]) < keep and record.digest not in have
        ]
        for have in wanting:
            have.add(record.digest)
        if wanting:
            chosen.append((number, record))
    return chosen


def unmeasured(records: Iterable[Record], known: Iterable[Record]) -> list[Record]:
    """Return those records that are no measurement among the known ones, whichever run they are of."""
    there = {_measurement(record) for record in known}
    return [record for record in records if _measurement(record) not in there]


def _measurement(record: Record) -> tuple[object, ...]:
    # Seconds of other programs are milliseconds to some digits.
    return (record.key, record.digest, record.failure, *(f"{ms:.9g}" for ms in record.run_ms))
