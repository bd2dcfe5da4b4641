"""Measures the candidates in one file on a board, through the lab; runs in a worker process."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import tvm

from toolchain.answers import lie, shown, understood
from toolchain.arrays import Array
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.devices.device import CPU
from toolchain.devices.kind import Failure
from toolchain.devices.table import kind_of
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.rpc.client import Grant
from toolchain.rpc.session import connect
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import Case, FileCode, Often, Opened, Parameter, Times
from toolchain.tasks.evaluator import BuiltCandidate
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import wrong
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.plans.answers import PossibleTimes, failure_of, known_conditions

# Caches operands in a board's memory, since most are the same for all candidates of a task.

# Limit of the operands cached on a board. One layer has up to 10 MB of weights, in several layouts; the
# smallest boards have 512 MB of memory.
_KEPT_BYTES = 64 << 20
_Key: TypeAlias = tuple[str, str, tuple[int, ...], bytes]


class Operands:
    """The operands of one session. Equal inputs are sent only once."""

    def __init__(self, session: tvm.rpc.RPCSession) -> None:
        self._session = session
        self._kept: dict[_Key, tvm.runtime.Tensor] = {}
        self._bytes = 0

    def of(self, arrays: Sequence[Array], outputs: int, memory: str) -> list[tvm.runtime.Tensor]:
        """Return tensors on the board for a function's arguments; the last `outputs` of them are its outputs.

        Outputs are always sent anew: in a reused buffer the values of another candidate would pass for the
        outputs of this one.
        """
        inputs = len(arrays) - outputs
        device = self._session.device(memory)
        return [
            *(self._once(array, memory) for array in arrays[:inputs]),
            *(tvm.runtime.tensor(array, device) for array in arrays[inputs:]),
        ]

    def _once(self, array: Array, memory: str) -> tvm.runtime.Tensor:
        content = hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()
        key = (memory, str(array.dtype), array.shape, content)
        if key not in self._kept:
            if self._bytes + array.nbytes > _KEPT_BYTES:
                self._kept.clear()
                self._bytes = 0
            self._kept[key] = tvm.runtime.tensor(array, self._session.device(memory))
            self._bytes += array.nbytes
        return self._kept[key]


_SHUT_DOWN = "kShutdown"  # src/runtime/rpc/rpc_endpoint.cc
WAITED = "while it waited for the board"  # edge-rt's words


class BoardBusyError(ToolchainError):
    """Others measured on the board for as long as the session had; nothing was measured."""


class SessionLostError(ToolchainError):
    """This host's end of the session was closed before a candidate was run; a new session may do."""


@dataclass(frozen=True)
class Subject:
    """One function of a file and its parameters; see `tasks.candidate.Candidate`."""

    function: str
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str


@dataclass(frozen=True)
class Request:
    """The arguments of `measure`: what to measure, where and how.

    Attributes
    ----------
    library
        The file to upload.
    code
        Opens the file in the session; None: it is opened as a library.
    cases
        Inputs and expected outputs; the first case is also timed.
    limit_s
        Time limit for one subject, in seconds.
    possible
        The times that are believed.
    timeout_s
        The server's deadline for the whole session, in seconds.
    """

    grant: Grant
    key: str
    library: Path
    subjects: tuple[Subject, ...]
    threads: int
    cluster: str
    number: int
    repeat: int
    min_repeat_ms: int
    limit_s: float
    possible: PossibleTimes
    timeout_s: float
    cases: tuple[Case, ...]
    code: FileCode | None = None


def requested(
    grant: Grant,
    key: str,
    target: BoardTarget,
    built: Sequence[BuiltCandidate],
    cases: tuple[Case, ...],
    how: TuneOptions,
    limit_s: float,
    possible: PossibleTimes,
) -> Request:
    """Return the request for candidates of one library; `possible.most_s` is the deadline of its session."""
    (library,) = {item.library for item in built if item.library is not None}
    code = built[0].candidate.code
    return Request(
        grant=grant,
        key=key,
        library=library,
        subjects=tuple(
            Subject(item.function, item.candidate.parameters, item.candidate.outputs, item.candidate.memory)
            for item in built
        ),
        threads=target.threads,
        cluster=target.cpu,
        number=how.number,
        repeat=how.repeat,
        min_repeat_ms=how.min_repeat_ms,
        limit_s=limit_s,
        possible=possible,
        timeout_s=possible.most_s,
        cases=cases,
        code=code if isinstance(code, FileCode) else None,
    )


def ready() -> None:
    """Do nothing: a worker that answers has imported everything."""


def measure(request: Request) -> list[Result]:
    """Upload a file; then, for each of its functions, compare its outputs and time it.

    The session ends after the first failure, so that damage to the process does not affect other functions.
    It also ends when too little of its time is left for another subject.

    Returns
    -------
    list
        The results of the first subjects, at least one.

    Raises
    ------
    BoardBusyError
        The session's time passed while it waited for others who measure there.
    SessionLostError
        The session ended on this host's side before anything was measured.
    ToolchainError
        The lab, not a candidate, is at fault.
    CheckError
        The board's facts or times cannot be true.
    """
    until = time.monotonic() + request.timeout_s
    session = connect(
        request.grant,
        request.key,
        request.timeout_s,
        threads=request.threads,
        cluster=request.cluster,
    )
    results: list[Result] = []
    try:
        opened = _open(session, request)
        for subject in request.subjects:
            if results and time.monotonic() + request.limit_s > until:
                break
            results.append(opened.measure(subject))
            if results[-1].failure:
                break
    except tvm.error.RPCSessionTimeoutError as error:
        if WAITED in str(error) and not results:
            raise BoardBusyError(f"others have measured there for {request.timeout_s:.0f} s") from error
        results.append(Result(failure="timeout", message=f"not done within {request.limit_s:.0f} s"))
    except SessionLostError:
        if not results:
            raise
    except ToolchainError:
        raise
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        check_not_lost(error)
        results.append(Result(failure="upload", message=first_line(error)))
    return results


def check_not_lost(error: Exception) -> None:
    """Raise SessionLostError if an error of an upload is this host's own: a board's has another type.

    TVM's client fails a check of its own when the end of the session meets an answer that it waits for.
    """
    if isinstance(error, tvm.error.InternalError) and _SHUT_DOWN in str(error):
        raise SessionLostError(first_line(error)) from error


@dataclass(frozen=True)
class _Opened:
    """A session with the file loaded."""

    request: Request
    session: tvm.rpc.RPCSession
    board: str
    facts: EdgeRtInfo
    file: Opened
    operands: Operands

    def measure(self, subject: Subject) -> Result:
        stage: Failure = "upload"
        try:
            for case in reversed(self.request.cases):
                stage = "upload"
                arrays = _arrays(subject.parameters, case)
                tensors = self.operands.of(arrays, subject.outputs, subject.memory)
                stage = "runtime"
                self.file.run(subject.function, tensors)
                written = list(zip(subject.parameters, tensors, strict=True))[-subject.outputs :]
                outputs = [parameter.logical(tensor.numpy()) for parameter, tensor in written]
                expected = case.expected()
                if expected is None:  # unknown: the outputs of the first candidate become the expected ones
                    case.expect(outputs)
                elif problem := wrong(outputs, expected):
                    return Result(failure="wrong result", message=problem)
            return self._timed(subject, tensors)
        except (tvm.error.RPCSessionTimeoutError, ToolchainError):
            raise
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            if stage == "upload":
                check_not_lost(error)
            kind, message = failure_of(error, stage, kind_of(subject.memory))
            return Result(failure=kind, message=message)

    def _timed(self, subject: Subject, tensors: Sequence[tvm.runtime.Tensor]) -> Result:
        request = self.request
        often = Often(request.number, request.repeat, request.min_repeat_ms)
        times = self.file.time(subject.function, tensors, subject.memory, often)
        if problem := request.possible.problem(times.ms, modelled=times.modelled):
            raise lie(self.board, "the time of a measurement", problem)
        return Result(
            times.ms,
            governor=self.facts.governor,
            temperature_c=self.facts.temperature_c,
            conditions=self._conditions(subject.memory),
            modelled=times.modelled,
        )

    def _conditions(self, memory: str) -> str | None:
        """Ask how the device is now: its clock falls soon after it has nothing to do."""
        if memory == CPU:
            return None
        device = tvm.runtime.device(memory)
        said = self.session.get_function("edge.conditions")(device.dlpack_device_type(), device.index)
        return known_conditions(self.board, said)


def _open(session: tvm.rpc.RPCSession, request: Request) -> _Opened:
    """Upload the file and load it."""
    board = request.key.partition("@")[2] or request.key
    facts = _facts(board, session.get_function("edge.info")())
    session.upload(str(request.library))
    opens = request.code.open if request.code else _Library
    return _Opened(
        request, session, board, facts, opens(session, request.library.name, board), Operands(session)
    )


class _Library:
    """A library of functions; see `tasks.upload.Opened`."""

    def __init__(self, session: tvm.rpc.RPCSession, name: str, board: str) -> None:
        del board
        self._session, self._module = session, session.load_module(name)

    def run(self, function: str, tensors: Sequence[tvm.runtime.Tensor]) -> None:
        self._module[function](*tensors)

    def time(self, function: str, tensors: Sequence[tvm.runtime.Tensor], memory: str, often: Often) -> Times:
        timed = self._module.time_evaluator(
            function,
            self._session.device(memory),
            number=often.number,
            repeat=often.repeat,
            min_repeat_ms=often.min_repeat_ms,
        )(*tensors)
        return Times(tuple(seconds * 1e3 for seconds in timed.results))


def _facts(board: str, said: object) -> EdgeRtInfo:
    what = "the answer of edge.info"
    if not isinstance(said, str):
        raise lie(board, what, f"it is {shown(said)}, not text")
    return understood(EdgeRtInfo, said, board, what)


def _arrays(parameters: tuple[Parameter, ...], case: Case) -> list[Array]:
    """Return a candidate's arguments in their layouts in memory."""
    arguments = case.arguments()
    return [parameter.filled(arguments.get(place)) for place, parameter in enumerate(parameters)]
