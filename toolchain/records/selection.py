"""Filters for records: by task, board class, kind, board and age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolchain.records.columns import Value
from toolchain.records.record import Record


@dataclass(frozen=True)
class Selection:
    """A filter for records; an empty criterion selects everything.

    Attributes
    ----------
    tasks
        Prefixes of the workloads' hashes, as `toolchain tasks` prints them.
    boards
        Names of the boards that measured.
    since
        Earliest time of creation: ISO 8601 in UTC, in the format of `Record.created`.
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
        """Return the filter as SQL conditions, each preceded by AND, and their values."""
        conditions, values = [], []
        if self.tasks:
            # The index needs whole hashes; there are few functions compared with records.
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
    """Return the records whose measurement is not among the known ones, whatever their run."""
    there = {_measurement(record) for record in known}
    return [record for record in records if _measurement(record) not in there]


def _measurement(record: Record) -> tuple[object, ...]:
    # Times that other programs wrote in seconds agree in milliseconds to some digits only.
    return (record.key, record.digest, record.failure, *(f"{ms:.9g}" for ms in record.run_ms))
