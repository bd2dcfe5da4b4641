"""Queries that find the preferred records without reading the others.

A group is the records with equal key, kind and `excluded`. The index `by_rank` lists the groups one after the
other, and the records of each in the order of preference. So the queries find the first record of every group
by skipping from group to group, and read further records of a group only if a build cannot use its first.
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
"""Selects the id and the columns of the best record of each group; groups with only failures are left out."""

PAGE = (
    f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
    f" WHERE {OF_GROUP} AND {FAILED} = 0 AND {MEASURED} ORDER BY {RANK} LIMIT ? OFFSET ?"
)
"""Selects the records of one group in their order; takes the values of `GROUP`, a limit and an offset."""


def rank(number: int, record: Record) -> tuple[object, ...]:
    """Return a sort key that orders records with times as `columns.RANK` does, across groups as well."""
    if not record.confirmed:
        return (record.provenance.modelled, True, record.best_ms, number)
    latest_first = (*(-ord(letter) for letter in record.created), 1)
    return (record.provenance.modelled, False, latest_first, -number)
