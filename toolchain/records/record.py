"""One measured candidate and the circumstances of its measurement."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

from toolchain.architectures.table import linux_rows
from toolchain.devices.kind import Failure

# The key of a record: the task, the code's target and the board class.

EMULATED = "+emulated"


@dataclass(frozen=True)
class RecordKey:
    """The conditions under which a measurement is valid.

    Parameters
    ----------
    workload
        Hash of what is computed, independent of algorithm and schedule; stable across processes.
    triple, cpu
        LLVM's names of the target triple and the CPU.
    level
        Feature level of the code, such as `x86-64-v3` or `neon`, with `+feature` for each further feature.
    threads
        Number of threads that ran it.
    board_class
        `<class>` or `<class>+emulated`.
    device
        The accelerator that computed: `opencl:<name>`, `cuda:sm_87`, `vta:<configuration>`; empty: the CPU.
        A record of one device is never used for another.
    """

    workload: str
    triple: str
    cpu: str
    level: str
    threads: int
    board_class: str
    device: str = ""

    @property
    def emulated(self) -> bool:
        """Whether the board was emulated: rankings of an emulator do not hold for real hardware."""
        return self.board_class.endswith(EMULATED)


def level_rank(level: str, of: str) -> tuple[int, int] | None:
    """Rank how close feature level `level` is to `of`; None if its code needs more or another architecture.

    Returns
    -------
    tuple
        Larger is closer; equal levels have the largest rank.
    """
    base, *features = level.split("+")
    wanted_base, *wanted_features = of.split("+")
    ladders = ([level.name for level in row.levels] for row in linux_rows())
    ladder = next((ladder for ladder in ladders if base in ladder), [base])
    if wanted_base not in ladder or ladder.index(base) > ladder.index(wanted_base):
        return None
    if not set(features) <= set(wanted_features):
        return None
    return ladder.index(base), len(features)


# These are failures of the machines, not of the candidate: it may be tried again.
PASSING_FAILURES = frozenset({"link", "upload"})


@dataclass(frozen=True)
class Provenance:
    """The circumstances of a measurement, which are not part of its key.

    Parameters
    ----------
    run
        Id of one call of `tune`.
    trial
        Index of the candidate within its run, from 0; None for a default.
    board
        The board's name.
    runtime
        Fingerprint of the edge-rt that measured.
    tvm, tvm_ffi, tool
        Versions.
    governor, temperature_c
        The CPU frequency governor and temperature of the board, if readable.
    conditions
        What a device other than the CPU said of itself just after the measurement, as a JSON object: its
        clock (`clock_mhz`), its temperature (`temperature_c`), and how many other processes computed on it
        (`others`); None where it said nothing.
    excluded
        What the run was told to leave out, in its backend's words, such as `winograd`; empty if it searched
        everything. Its winner was not compared with any candidate left out.
    modelled
        The time comes from a model of the device instead of a measurement.
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
    conditions: str | None = None
    excluded: str = ""
    modelled: bool = False


def now() -> str:
    """Return the time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Record:
    """One measured candidate, with `run_ms` if it ran or `failure` if it did not.

    Parameters
    ----------
    function
        Id of the measured function, from `RecordStore.add_function`.
    kind, payload
        The backend's name for the kind of candidate, and the data from which the backend builds it again.
    digest
        Identifies the candidate among those of its workload.
    run_ms
        Mean time of one call in milliseconds, for each repeat.
    confirmed
        The candidate won the final comparison with the default, in the whole network if a board runs it
        (`run_ms` is then the time of a call there). It is preferred to faster unconfirmed records, whose
        single measurement may be too optimistic.
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
        """Mean time over the repeats in milliseconds, None for a failure."""
        return fmean(self.run_ms) if self.failure is None else None
