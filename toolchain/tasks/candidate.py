"""A point of a task with everything needed to compile and measure it alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from toolchain.architectures.least_time import bounding_flops, least_ms
from toolchain.arrays import Array
from toolchain.devices.kernel import Kernel
from toolchain.devices.table import peak_flops
from toolchain.files import atomic
from toolchain.records.record import Record, RecordKey
from toolchain.tasks.draws import Draw
from toolchain.tasks.task import Task

if TYPE_CHECKING:
    import tvm

    from toolchain.targets.target import BoardTarget


# The parameters of a function that is measured alone, and their layouts in memory.


class MemoryLayout(Protocol):
    """Converts a value between the network's shape and its layout in memory."""

    def pack(self, value: Array) -> Array:
        """Convert a value from the network's shape to its layout in memory."""

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Convert a value from its layout in memory to the network's shape, `logical`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function.

    Attributes
    ----------
    shape
        Shape in the network, before any packing.
    layout
        Layout in memory; None: row-major, in the network's shape.
    value
        The value of a constant, in its layout in memory; None if it is no constant.
    pack
        Returns another weight in the layout in which this constant one is; None for other parameters, and in
        another process: there nobody asks, and it knows too much to be sent.
    """

    shape: tuple[int, ...]
    dtype: str
    layout: MemoryLayout | None = None
    value: Array | None = None
    pack: Callable[[Array], Array] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "pack": None}

    def filled(self, logical: Array | None) -> Array:
        """Return the argument in its layout in memory: the constant, else the packed `logical`.

        Parameters
        ----------
        logical
            The value in the network's shape. None for an output: then the result is filled with NaN (zeros
            for integers), so that a function that leaves values unwritten is noticed.
        """
        if self.value is not None:
            return self.value
        if logical is None:
            logical = np.full(self.shape, np.nan if self.dtype.startswith("float") else 0, self.dtype)
        return logical if self.layout is None else self.layout.pack(logical)

    def logical(self, value: Array) -> Array:
        """Convert a value from its layout in memory to the network's shape."""
        return value if self.layout is None else self.layout.unpack(value, self.shape)


@dataclass(frozen=True)
class Entry:
    """A point of a space in the form that the store of records keeps.

    Attributes
    ----------
    kind
        Format of the payload; each backend has its own kinds.
    payload
        The complete point as text.
    digest
        Identifies the point among all points of its task.
    """

    kind: str
    payload: str
    digest: str


class CandidateCode(Protocol):
    """Code that can be compiled. It is sent to other processes, so it must be picklable."""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Compile the code; return the contents of object files, in the order to link them.

        Parameters
        ----------
        symbol
            Name of the function in the library, unique among the candidates that share it.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@runtime_checkable
class DeviceCode(CandidateCode, Protocol):
    """Code that runs partly on a device. A library embeds all its functions' device code as one piece."""

    def linkable(self, parts: Sequence[bytes]) -> tuple[bytes, ...]:
        """Merge compiled functions; return the contents of object files, in the order to link them.

        Parameters
        ----------
        parts
            The results of `objects` for all functions of the library, all for the same target.
        """

    def launches(self) -> list[Kernel]:
        """Compile the code and return the kernels that it launches, sorted by name.

        Raises
        ------
        ToolchainError
            The compiler fails.
        """


@dataclass(frozen=True)
class Candidate:
    """A function to compile and measure, and its parameters.

    Attributes
    ----------
    entry
        The point in the form that a record keeps.
    parameters
        Parameters of the function, which writes the last `outputs` of them.
    memory
        Kind of the device whose memory holds the arguments; `cpu`: host memory, even if a device computes.
    """

    entry: Entry
    code: CandidateCode
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str = "cpu"


# The expected outputs of a task, computed from its definition; candidates are compared with them.


class TaskReference(Protocol):
    """Computes a task from its definition, without the schedules and generators of candidates.

    It is sent to another process, so it must be picklable.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The inputs of the task, in the order of its candidates' parameters; constants have their values."""

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Compute the outputs for several draws of inputs, all in the network's shapes.

        Raises
        ------
        ToolchainError
            The definition cannot be computed on this host.
        """


@dataclass(frozen=True)
class Case:
    """Inputs for a candidate, and the outputs that it must compute from them.

    Attributes
    ----------
    inputs
        `.npz` file of the inputs, each named by its index among the parameters; without the constants.
    outputs
        `.npz` file of the expected outputs, in their order. It does not exist until they are known.
    drawn
        Those of the inputs and of the weights that a board can draw, too.
    weights
        Other weights, which are not drawn, in the network's shapes.
    """

    inputs: Path
    outputs: Path
    drawn: Mapping[int, Draw] = field(default_factory=dict)
    weights: Mapping[int, Array] = field(default_factory=dict, repr=False, compare=False)

    def arguments(self) -> dict[int, Array]:
        """Read the inputs, in the network's shapes, by their index among the parameters."""
        return {int(name): value for name, value in _read(self.inputs).items()}

    def expected(self) -> list[Array] | None:
        """Read the expected outputs, in the network's shapes; None if they are not known yet."""
        return list(_read(self.outputs).values()) if self.outputs.exists() else None

    def expect(self, outputs: Sequence[Array]) -> None:
        """Write the expected outputs to their file."""
        _write(self.outputs, {str(place): value for place, value in enumerate(outputs)})


def write_case(folder: Path, name: str, arguments: dict[int, Array]) -> Case:
    """Write the inputs of a new case into a folder; its outputs are not known yet."""
    case = Case(folder / f"{name}-inputs.npz", folder / f"{name}-outputs.npz")
    _write(case.inputs, {str(place): value for place, value in arguments.items()})
    return case


def _read(path: Path) -> dict[str, Array]:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def _write(path: Path, arrays: dict[str, Array]) -> None:
    with atomic.replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Known(Task):
    """The task of a probe; it is not part of a network."""

    @property
    def definition(self) -> str:
        """Name of the function that it computes."""
        return self.name


@dataclass(frozen=True)
class Probe:
    """A known-good function, built like any candidate, and the reference it is compared with."""

    task: Known
    candidate: Candidate
    reference: TaskReference


# The key of a task's records, and the check that a recorded time is possible.


def record_key(workload: str, target: BoardTarget, record_class: str) -> RecordKey:
    """Return the exact key of a task's records."""
    device = target.recorded_as or target.device
    return RecordKey(workload, target.triple, target.cpu, target.level, target.threads, record_class, device)


def least_task_ms(task: Task, key: RecordKey, measured: float | None = None) -> float:
    """Return the time in ms that no hardware of this kind can beat for the task.

    Parameters
    ----------
    measured
        Peak FLOP/s that was measured on one core of the board; None: it was not.
    """
    return least_ms(
        bounding_flops(task.flops, [task.name]),
        triple=key.triple,
        cpu=key.cpu,
        level=key.level,
        threads=key.threads,
        peak=peak_flops(key.device),
        measured=measured,
    )


def unbelievable(record: Record, task: Task) -> bool:
    """Whether a record's time is shorter than any hardware of its kind could take for the task."""
    return record.best_ms is not None and record.best_ms < least_task_ms(task, record.key)


def entry_of(record: Record) -> Entry:
    """Return the point in a record as an entry."""
    return Entry(record.kind, record.payload, record.digest)


# How an uploaded candidate is loaded, run and timed in an RPC session.


@dataclass(frozen=True)
class Often:
    """How many times a candidate is run to time it; `TuneOptions` explains the fields."""

    number: int
    repeat: int
    min_repeat_ms: int


@dataclass(frozen=True)
class Times:
    """Milliseconds of one call, one value for each repeat, by the board's clock or a model of the device."""

    ms: tuple[float, ...]
    modelled: bool = False


class Opened(Protocol):
    """A file loaded in a session. Errors of the session are raised as TVM raises them."""

    def run(self, function: str, tensors: Sequence[tvm.runtime.Tensor]) -> None:
        """Call a function once."""

    def time(self, function: str, tensors: Sequence[tvm.runtime.Tensor], memory: str, often: Often) -> Times:
        """Call a function repeatedly and return its times.

        Parameters
        ----------
        memory
            Kind of the device whose memory holds the tensors.

        Raises
        ------
        CheckError
            The board's answer cannot be true.
        """


@dataclass(frozen=True)
class ModelledRun:
    """The cycles that a model of a device counts for one run that a board simulated.

    Attributes
    ----------
    mhz, version
        Clock rate that the model assumes, and its version.
    """

    cycles: int
    mhz: int
    version: int


@runtime_checkable
class FileCode(CandidateCode, Protocol):
    """Code that is not linked: the board gets the result of `objects`, one file for each candidate."""

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> Opened:
        """Load a file that was uploaded to the session.

        Parameters
        ----------
        board
            Name of the board, for error messages.
        """

    def modelled_ms(self, device: str, run: ModelledRun | None) -> float | None:
        """Return the time of a run in ms; None if the board's clock timed it.

        Parameters
        ----------
        device
            The device that ran it, as edge-rt names it.
        run
            What the model says; None for times of a clock.

        Raises
        ------
        ValueError
            The answer cannot be right; the text says why.
        """
