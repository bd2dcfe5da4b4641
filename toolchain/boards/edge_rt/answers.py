"""What `edge-rt` says of a board."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo

from toolchain.answers import LARGEST, Answer, Sentence, Several, Word, lie
from toolchain.boards.transport import Completed
from toolchain.devices.facts import DeviceFacts
from toolchain.devices.table import find_kind

Version = Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){1,3}$")]
Celsius = Annotated[float, Field(ge=-300, le=10_000)]  # a broken sensor says odd things
Millidegrees = Annotated[int, Field(ge=-300_000, le=10**7)]


def _of_its_kind(value: Any, info: ValidationInfo) -> Any:
    """Read a device's facts in the form of its kind; of kinds that are unknown here, what all have."""
    row = find_kind(str(info.data.get("kind", "")))
    if row is None or not isinstance(value, dict):
        return value
    return row.facts().model_validate_json(json.dumps(value))  # exact types, as the whole answer


_DeviceFacts = Annotated[SerializeAsAny[DeviceFacts], BeforeValidator(_of_its_kind)]


class DevicesThere(Answer):
    """The devices of one kind that networks can run on: by their drivers' names, or why there are none.

    `details` has as many as `names`, or none where the kind has no more to say.
    """

    kind: Word
    names: Several[Sentence] = Field(max_length=1000)
    problem: Sentence | None
    details: Several[_DeviceFacts] = Field((), max_length=1000)


class Facts(Answer):
    """What `edge-rt info` says, as far as anything depends on it.

    Attributes
    ----------
    fingerprint
        Of the sources that this edge-rt was compiled from.
    cpu_features
        In Linux's words.
    devices
        Of every kind that needs no driver, the CPU among them; of all kinds where drivers were asked too.
    governor, temperature_c
        None where the board's system doesn't say.
    """

    version: Word
    fingerprint: Word
    machine: Word
    glibc: Version
    cpu_features: Several[Word] = Field(max_length=2000)
    devices: Several[DevicesThere] = Field(min_length=1, max_length=100)
    logical_cpus: int = Field(ge=1, le=2**16)
    governor: Word | None
    temperature_c: Celsius | None


class Provenance(Answer):
    """Which edge-rt lies there, of this version or another, and the devices that it knows of."""

    version: Word
    devices: Several[DevicesThere] = Field((), max_length=100)


class State(Answer):
    """How a board is, read from the lines of a script; None where its system doesn't say.

    Attributes
    ----------
    node
        Device files of accelerators.
    gpu
        Clocks of GPUs: name, governor, Hz now, all Hz there are, with `|` between.
    closed
        Device files of GPUs that the login may not open, and their groups.
    icd, library, display
        Files that name drivers of OpenCL; such drivers; processes that draw on the screen.
    others
        What looks for kinds of devices said by keys of their own.
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
    """Why a server could not begin, or has ended."""

    message: Sentence = ""


class ServerSaid(Answer):
    """One line of `edge-rt serve`: its secret, the port once it serves, or an error."""

    secret: str | None = Field(None, pattern="^[0-9a-f]{32}$")
    port: int | None = Field(None, ge=1, le=65535)
    error: ServerFailure | None = None


def text_of(completed: Completed, board: str, what: str, most: int = LARGEST) -> str:
    """Return what a script printed, of which every line becomes some values.

    Raises
    ------
    CheckError
        It is longer than a script of ours can make it.
    """
    size = len(completed.stdout) + completed.stdout_dropped
    if size > most:
        raise lie(board, what, f"it has {size} bytes, more than the {most} that are read", of_system=True)
    return completed.stdout.decode(errors="replace")


def check_output(completed: Completed, board: str, what: str) -> bytes:
    """Return what a command printed, if all of it came.

    Raises
    ------
    CheckError
        It printed more than is read.
    """
    if completed.stdout_dropped:
        read = len(completed.stdout)
        raise lie(board, what, f"it has {read + completed.stdout_dropped} bytes, of which {read} are read")
    return completed.stdout
