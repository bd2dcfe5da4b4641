"""The columns of the table `records`: the one list of them, for every database."""

from __future__ import annotations

from toolchain.architectures.least_time import LEAST_MS, LONGEST_MS
from toolchain.records.key import RecordKey

KEY = ("workload", "triple", "cpu", "level", "threads", "board_class", "device")
OWN = ("function", "kind", "payload", "digest", "run_ms", "failure", "confirmed", "created")
PROVENANCE = (
    *("run", "board", "runtime", "tvm", "tvm_ffi", "tool", "trial"),
    *("governor", "temperature_c", "excluded", "modelled", "conditions"),
)
NAMES = (*KEY, *OWN, *PROVENANCE)
IDENTITY = (*KEY, "function", "kind", "digest", "run_ms", "confirmed", "run", "board")
"""Two records with equal values in these columns are the same measurement. All are NOT NULL."""

_NUMBERS = {
    **dict.fromkeys(("threads", "confirmed", "trial", "modelled"), "BIGINT"),
    **dict.fromkeys(("temperature_c", "best_ms"), "DOUBLE PRECISION"),
}
Value = str | int | float | None

ALL = ", ".join(NAMES)
OF_KEY = " AND ".join(f"{name}=?" for name in KEY)
# Earlier versions stored whatever time a board reported; impossible times are ignored.
POSSIBLE = f"(best_ms IS NULL OR (best_ms >= {LEAST_MS} AND best_ms < {LONGEST_MS}))"
_SAME = " AND ".join(f"refuted.{name} = records.{name}" for name in (*KEY, "digest"))
# A candidate that ran and was later found to compute a wrong result. `created` decides what is later, not the
# row id: an imported record is older than its row.
_LATER = (
    "(refuted.created > records.created OR (refuted.created = records.created AND refuted.id > records.id))"
)
_REFUTED = (
    f"EXISTS (SELECT 1 FROM records AS refuted WHERE {_SAME} AND {_LATER}"  # noqa: S608
    " AND refuted.best_ms IS NULL AND refuted.failure = 'wrong result')"
)
MEASURED = f"{POSSIBLE} AND best_ms IS NOT NULL AND NOT {_REFUTED}"
RANK = (
    "modelled, confirmed DESC, (CASE WHEN confirmed = 1 THEN created END) DESC,"
    " (CASE WHEN confirmed = 1 THEN -id ELSE best_ms END), id"
)
"""The order in which a build prefers the records of one key: measured before modelled, then the confirmed
record created last (imported records are older than their row ids), then the fastest."""
FAILED = "(CASE WHEN best_ms IS NULL THEN 1 ELSE 0 END)"
"""1 for a failure, so that failures come last within a group in the index `by_rank`."""
GROUP = (*KEY, "kind", "excluded")
"""Records with equal values in these columns suit the same builds, unless a payload says otherwise."""
OF_GROUP = " AND ".join(f"{name}=?" for name in GROUP)

SELECT = f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
INSERT = f"INSERT INTO records ({ALL}, best_ms) VALUES ({', '.join('?' * (len(NAMES) + 1))})"  # noqa: S608
_CASTS = ", ".join(f"CAST(? AS {_NUMBERS.get(name, 'TEXT')})" for name in (*NAMES, "best_ms"))
INSERT_NEW = (
    f"INSERT INTO records ({ALL}, best_ms) SELECT {_CASTS} WHERE NOT EXISTS "  # noqa: S608
    f"(SELECT 1 FROM records WHERE {' AND '.join(f'{name}=?' for name in IDENTITY)})"
)
"""Inserts a measurement unless it is stored already; takes the values of `INSERT`, then those of `IDENTITY`.
"""


def possible_ms(ms: float) -> bool:
    """Whether this is a plausible duration of one call."""
    return LEAST_MS <= ms < LONGEST_MS


def key_values(key: RecordKey) -> tuple[Value, ...]:
    """Return the key's columns in their order."""
    return tuple(getattr(key, name) for name in KEY)
