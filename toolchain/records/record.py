"""One measured candidate and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean
from typing import Literal

from toolchain.records.key import RecordKey

Failure = Literal["build", "link", "upload", "timeout", "runtime", "wrong result"]
# These say something about the machines, not about the candidate: it may be tried again.
PASSING_FAILURES = frozenset({"link", "upload"})


# What a record's payload holds.
METASCHEDULE = "metaschedule"  # a trace, see `traces`
CPU = "cpu"  # how generated code computes it, see `backends.packed.algorithms.choice`
CPU_DIRECT = "cpu-direct"  # the same where winograd is not wanted: the best without it
GENERATED = (CPU, CPU_DIRECT)
DEFAULT = "default"  # nothing: the schedule that a build chooses without a record won
SCHEDULES = (METASCHEDULE, DEFAULT)  # what builds of unpacked layouts use
KINDS_OF_BUILDS = ((CPU,), (CPU_DIRECT,), SCHEDULES)  # a build uses the best record of one of these


@dataclass(frozen=True)
class Provenance:
    """Under which circumstances a record was measured; no part of its key.

    Parameters
    ----------
    run
        Identifies one call of `tune`.
    trial
        Number of the candidate within its run, from 0; None for defaults.
    board
        The board's name.
    runtime
        Fingerprint of the edge-rt that measured.
    tvm, tvm_ffi, tool
        Versions.
    governor, temperature_c
        Of the board's CPU, where readable.
    """

    run: str
    board: str
    runtime: str
    tvm: str
    tvm_ffi: str
    tool: str
    trial: int | None = None
    governor: str | None = None
    temperature_c: float | None = None


def generated_kind(winograd: bool) -> str:
    """Return the kind of a record of generated code that may use winograd, or may not."""
    return CPU if winograd else CPU_DIRECT


def now() -> str:
    """Return the time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Record:
    """One measured candidate: `run_ms` where it ran, `failure` where it did not.

    Parameters
    ----------
    function
        What `RecordStore.add_function` gave for the function that was measured.
    kind
        `METASCHEDULE`, `DEFAULT` or one of `GENERATED`.
    digest
        Identifies the candidate among those of its workload.
    run_ms
        Mean milliseconds of one call, per repeat.
    confirmed
        The choice among finalists that were measured again beside the default: it stands
        before faster records that were not, whose single reading may flatter them.
    """

    key: RecordKey
    function: str
    kind: str
    payload: str
    digest: str
    provenance: Provenance
    run_ms: tuple[float, ...] = ()
    failure: Failure | None = None
    confirmed: bool = False
    created: str = field(default_factory=now)

    @property
    def best_ms(self) -> float | None:
        """Mean over the repeats in milliseconds, None for a failure."""
        return fmean(self.run_ms) if self.failure is None else None
