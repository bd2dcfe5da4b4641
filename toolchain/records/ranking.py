"""The records that builds take, found without reading the others.

A group is what agrees in key, kind and `excluded`. The index `by_rank` has the groups one after the other,
and the records of each in the order of preference. So the first of every group is found by skipping from
group to group, and those behind it are read where a build cannot take it.
"""

from __future__ import annotations

from toolchain.records import columns
from toolchain.records.columns import ALL, FAILED, GROUP, MEASURED, OF_GROUP, RANK
from toolchain.records.record import Record

_GROUP = ", ".join(GROUP)
_FOUND = ", ".join(f"found.{name}" for name in ("id", *columns.NAMES))
_NEXT = ", ".join(f"next.{name}" for name in GROUP)
_BEHIND = f"({_GROUP}) > ({', '.join(f'groups.{name}' for name in GROUP)})"
_SAME_GROUP = " AND ".join(f"records.{name} = groups.{name}" for name in GROUP)

FIRST = (
    f"WITH RECURSIVE groups ({_GROUP}) AS ("  # noqa: S608  # our own constants
    f" SELECT * FROM (SELECT {_GROUP} FROM records ORDER BY {_GROUP} LIMIT 1) AS begin"
    f" UNION ALL SELECT {_NEXT} FROM groups, records AS next"
    f" WHERE next.id = (SELECT id FROM records WHERE {_BEHIND} ORDER BY {_GROUP} LIMIT 1))"
    f" SELECT {_FOUND} FROM groups, records AS found WHERE found.id = (SELECT id FROM records"
    f" WHERE {_SAME_GROUP} AND {FAILED} = 0 AND {MEASURED} ORDER BY {RANK} LIMIT 1)"
    f" ORDER BY {', '.join(f'groups.{name}' for name in GROUP)}"
)
"""The number and the columns of the first record of each group that has a time."""

PAGE = (
    f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
    f" WHERE {OF_GROUP} AND {FAILED} = 0 AND {MEASURED} ORDER BY {RANK} LIMIT ? OFFSET ?"
)
"""The same of one group, in its order; takes the values of `GROUP`, how many records, how many to skip."""


def rank(number: int, record: Record) -> tuple[object, ...]:
    """Return what sorts records with times as `columns.RANK` does, those of several groups too."""
    if not record.confirmed:
        return (record.provenance.modelled, True, record.best_ms, number)
    latest_first = (*(-ord(letter) for letter in record.created), 1)
    return (record.provenance.modelled, False, latest_first, -number)
