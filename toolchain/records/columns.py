"""The columns of the table `records`: the one list of them, for every database."""

from __future__ import annotations

from toolchain.architectures.least_time import LEAST_MS
from toolchain.records.key import RecordKey

KEY = ("workload", "triple", "cpu", "level", "threads", "board_class", "device")
OWN = ("function", "kind", "payload", "digest", "run_ms", "failure", "confirmed", "created")
PROVENANCE = (
    *("run", "board", "runtime", "tvm", "tvm_ffi", "tool", "trial"),
    *("governor", "temperature_c", "excluded", "modelled"),
)
NAMES = (*KEY, *OWN, *PROVENANCE)
IDENTITY = (*KEY, "function", "kind", "digest", "run_ms", "confirmed", "run", "board")
"""Records that agree in these are one measurement; all are NOT NULL."""

_LONGEST_MS = 3.2e10  # a year
_NUMBERS = {
    **dict.fromkeys(("threads", "confirmed", "trial", "modelled"), "BIGINT"),
    **dict.fromkeys(("temperature_c", "best_ms"), "DOUBLE PRECISION"),
}
Value = str | int | float | None

ALL = ", ".join(NAMES)
OF_KEY = " AND ".join(f"{name}=?" for name in KEY)
# Earlier versions kept whatever a board said; such times are left alone.
POSSIBLE = f"(best_ms IS NULL OR (best_ms >= {LEAST_MS} AND best_ms < {_LONGEST_MS}))"
_SAME = " AND ".join(f"refuted.{name} = records.{name}" for name in (*KEY, "digest"))
# A candidate that ran, and was found later to compute something else. Numbers alone do not say what is later:
# imported records are older than theirs.
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
"""The order in which a build takes the records of one key: what was measured before what a model said, the
last confirmed one (imported ones are older than their numbers), then the fastest."""
FAILED = "(CASE WHEN best_ms IS NULL THEN 1 ELSE 0 END)"
"""1 for a failure; failures of a group come last in the index of ranks."""
GROUP = (*KEY, "kind", "excluded")
"""Records that agree in these are taken by the same builds, but for what their payloads say."""
OF_GROUP = " AND ".join(f"{name}=?" for name in GROUP)

SELECT = f"SELECT id, {ALL} FROM records"  # noqa: S608  # our own constants
INSERT = f"INSERT INTO records ({ALL}, best_ms) VALUES ({', '.join('?' * (len(NAMES) + 1))})"  # noqa: S608
_CASTS = ", ".join(f"CAST(? AS {_NUMBERS.get(name, 'TEXT')})" for name in (*NAMES, "best_ms"))
INSERT_NEW = (
    f"INSERT INTO records ({ALL}, best_ms) SELECT {_CASTS} WHERE NOT EXISTS "  # noqa: S608
    f"(SELECT 1 FROM records WHERE {' AND '.join(f'{name}=?' for name in IDENTITY)})"
)
"""Takes the values of `INSERT`, then those of `IDENTITY`: a measurement that is there is not added again."""


def possible_ms(ms: float) -> bool:
    """Whether a call can have taken so long."""
    return LEAST_MS <= ms < _LONGEST_MS


def key_values(key: RecordKey) -> tuple[Value, ...]:
    """Return the key's columns in their order."""
    return tuple(getattr(key, name) for name in KEY)
