"""One measured candidate and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

from toolchain.devices.failure import Failure
from toolchain.records.key import RecordKey

# These say something about the machines, not about the candidate: it may be tried again.
PASSING_FAILURES = frozenset({"link", "upload"})


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
    excluded
        What the run was told to leave out, in its backend's words, such as `winograd`; empty where it
        searched everything. Its choice was compared with nothing of that.
    modelled
        The time is that of a model of the device: no clock has shown it.
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
    excluded: str = ""
    modelled: bool = False


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
    kind, payload
        What a backend calls the way the candidate was made, and what it needs to make it again.
    digest
        Identifies the candidate among those of its workload.
    run_ms
        Mean milliseconds of one call, per repeat.
    confirmed
        The choice among finalists that were compared with the default, in the whole network where a board
        runs it (`run_ms` is that of a call there): it stands before faster records that were not, whose
        single reading may flatter them.
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
