"""Which records are meant: some of them by task, board class, kind, board and age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolchain.records.columns import Value
from toolchain.records.record import Record


@dataclass(frozen=True)
class Selection:
    """Some of the records; what is empty leaves nothing out.

    Attributes
    ----------
    tasks
        Beginnings of the workloads' hashes, as `toolchain tasks` prints them.
    boards
        Names of the boards that measured.
    since
        Only records that were created then or later: ISO 8601 in UTC, as `Record.created` is written.
    """

    tasks: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    since: str = ""

    def __contains__(self, record: Record) -> bool:
        return (
            (not self.tasks or record.key.workload.startswith(self.tasks))
            and (not self.classes or record.key.board_class in self.classes)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.boards or record.provenance.board in self.boards)
            and record.created >= self.since
        )

    def where(self) -> tuple[str, tuple[Value, ...]]:
        """Return the same as conditions of SQL, each with an AND before it, and their values."""
        conditions, values = [], []
        if self.tasks:
            # Whole hashes are what the index has; the functions are few beside the records.
            begins = " OR ".join("substr(workload, 1, ?) = ?" for _ in self.tasks)
            conditions.append(f"workload IN (SELECT workload FROM functions WHERE {begins})")  # noqa: S608
            values += [value for task in self.tasks for value in (len(task), task)]
        for column, wanted in (("board_class", self.classes), ("kind", self.kinds), ("board", self.boards)):
            if wanted:
                conditions.append(f"{column} IN ({', '.join('?' * len(wanted))})")
                values += wanted
        if self.since:
            conditions.append("created >= ?")
            values.append(self.since)
        return "".join(f" AND {condition}" for condition in conditions), tuple(values)


EVERYTHING = Selection()


def unmeasured(records: Iterable[Record], known: Iterable[Record]) -> list[Record]:
    """Return those records that are no measurement among the known ones, whichever run they are of."""
    there = {_measurement(record) for record in known}
    return [record for record in records if _measurement(record) not in there]


def _measurement(record: Record) -> tuple[object, ...]:
    # Seconds of other programs are milliseconds to some digits.
    return (record.key, record.digest, record.failure, *(f"{ms:.9g}" for ms in record.run_ms))
