"""The answers of `edge-rt` and of status scripts, checked when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from toolchain.answers import LARGEST, Answer, Sentence, Several, Word, lie
from toolchain.boards.transport import Completed
from toolchain.devices.facts import DeviceFacts
from toolchain.devices.table import find_kind
from toolchain.errors import MissingError

Version = Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$")]
Celsius = Annotated[float, Field(ge=-300, le=10_000)]  # a broken sensor reports impossible temperatures
Millidegrees = Annotated[int, Field(ge=-300_000, le=10**7)]


def _of_its_kind(value: Any, info: ValidationInfo) -> Any:
    """Read a device with the fields of its kind; one of an unknown kind with the fields of all kinds."""
    try:
        row = find_kind(str(info.data.get("kind", "")))
    except MissingError:  # a broken plugin's: other devices of the board compute without it
        row = None
    if row is None or not isinstance(value, dict):
        return value
    return row.facts().model_validate_json(json.dumps(value))  # strict types, as in the rest of the answer


_DeviceFacts = Annotated[SerializeAsAny[DeviceFacts], BeforeValidator(_of_its_kind)]


class DevicesThere(Answer):
    """The devices of one kind on a board: the drivers' names for them, or the problem that prevents one.

    `details` has one entry for each name, or is empty if this kind reports nothing but names.
    """

    kind: Word
    names: Several[Sentence] = Field(max_length=1000)
    problem: Sentence | None
    details: Several[_DeviceFacts] = Field((), max_length=1000)


class CpuThere(Answer):
    """One CPU of a board, by the name of its core: LLVM's for Arm, `x86`, or `unknown`."""

    core: Word = Field(max_length=64)


class EdgeRtInfo(Answer):
    """The answer of `edge-rt info`, without the fields that nothing reads.

    Attributes
    ----------
    fingerprint
        Digest of the sources that this edge-rt was compiled from.
    cpu_features
        Features of the CPU, named as in Linux's /proc/cpuinfo.
    devices
        The CPU and each kind of device that needs no driver; the other kinds too, if drivers were asked.
    cpus, memory_mib
        The logical CPUs, and the size of the memory; empty and None from older versions.
    governor, temperature_c
        None if the board's system does not report it.
    """

    version: Word
    fingerprint: Word
    machine: Word
    glibc: Version
    cpu_features: Several[Word] = Field(max_length=2000)
    devices: Several[DevicesThere] = Field(min_length=1, max_length=100)
    logical_cpus: int = Field(ge=1, le=2**16)
    cpus: Several[CpuThere] = Field((), max_length=2**16)
    memory_mib: int | None = Field(None, ge=0, le=2**40)
    governor: Word | None
    temperature_c: Celsius | None


class Holder(Answer):
    """A process that has the lock of a board's measurements, or waits for it: its id there, what it does."""

    pid: int = Field(ge=1, le=2**31)
    what: Sentence


class Waiter(Holder):
    """A process that waits for the lock, and for how long already."""

    waited_s: float = Field(ge=0, le=1e10)


class InstalledVersion(Answer):
    """The answer of an edge-rt on a board, which may not be ours.

    Attributes
    ----------
    holder, waiting
        Who measures, and who waits for it, the first one first; None and empty from older versions.
    """

    version: Word
    devices: Several[DevicesThere] = Field((), max_length=100)
    holder: Holder | None = None
    waiting: Several[Waiter] = Field((), max_length=1000)


class State(Answer):
    """The lines that the status script printed; None for a value that the board's system does not report.

    Attributes
    ----------
    node
        Device files of accelerators on the board.
    gpu
        One line for each GPU clock: name, governor, present frequency in Hz and the available ones,
        separated by `|`.
    closed
        Device files of GPUs that the login may not open, each with its group.
    icd, library, display
        Files in /etc/OpenCL/vendors; OpenCL libraries; names of running display servers.
    others
        Values of other keys, which the scripts of kinds of devices print.
    """

    load_1min: float | None = Field(None, ge=0, le=1e6)
    uptime_s: int | None = Field(None, ge=0, le=10**11)
    millidegrees: Several[Millidegrees] = Field((), max_length=1000)
    governor: Several[Word] = Field((), max_length=10_000)
    memory_free_kib: int | None = Field(None, ge=0, le=2**50)
    disk_free_kib: int | None = Field(None, ge=0, le=2**60)
    node: Several[Word] = Field((), max_length=1000)
    gpu: Several[Sentence] = Field((), max_length=1000)
    closed: Several[Word] = Field((), max_length=1000)
    icd: Several[Word] = Field((), max_length=1000)
    library: Several[Word] = Field((), max_length=1000)
    display: Several[Word] = Field((), max_length=10_000)
    others: Mapping[str, Several[Sentence]] = Field(default_factory=dict)
    info: str | None = None


class ServerFailure(Answer):
    """Why a server could not start, or why it ended."""

    message: Sentence = ""


class Wait(Answer):
    """A session's wait for the board's lock: who holds it, and how many are to have it before."""

    holder: Holder | None
    ahead: int = Field(ge=0, le=10_000)
    waited_s: float = Field(ge=0, le=1e10)


class ServerSaid(Answer):
    """One line of `edge-rt serve`: its secret, then the port when it accepts clients, or an error.

    `waiting` is said when a session waits for the lock, when what it waits for changes, and, as null, at
    the end.
    """

    secret: str | None = Field(None, pattern="^[0-9a-f]{32}$")
    port: int | None = Field(None, ge=1, le=65535)
    error: ServerFailure | None = None
    waiting: Wait | None = None

    @property
    def is_of_waiting(self) -> bool:
        """True for "waiting" and "no longer waiting" messages."""
        return "waiting" in self.model_fields_set


def text_of(completed: Completed, board: str, what: str, most: int = LARGEST) -> str:
    """Return the output of a script as text, to be parsed line by line.

    Raises
    ------
    CheckError
        The output is longer than `most` bytes.
    """
    size = len(completed.stdout) + completed.stdout_dropped
    if size > most:
        raise lie(board, what, f"it has {size} bytes, more than the {most} that are read", of_system=True)
    return completed.stdout.decode(errors="replace")


def check_output(completed: Completed, board: str, what: str) -> bytes:
    """Return the output of a command, if all of it was received.

    Raises
    ------
    CheckError
        The command printed more than the transport keeps.
    """
    if completed.stdout_dropped:
        read = len(completed.stdout)
        raise lie(board, what, f"it has {read + completed.stdout_dropped} bytes, of which {read} are read")
    return completed.stdout
