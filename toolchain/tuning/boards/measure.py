"""Candidates of one file on a board, through the lab; runs in a worker process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm

from toolchain.answers import lie, shown, understood
from toolchain.arrays import Array
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.devices.failure import Failure
from toolchain.devices.table import kind_of
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.rpc.client import Grant
from toolchain.rpc.session import connect
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.reference import Case
from toolchain.tasks.tuner import Result
from toolchain.tasks.upload import FileCode, Often, Opened, Times
from toolchain.tuning.boards.cases import wrong
from toolchain.tuning.boards.failing import failure_of
from toolchain.tuning.boards.operands import Operands


@dataclass(frozen=True)
class Subject:
    """One of a file's functions, and what it is called with; see `tasks.candidate.Candidate`."""

    function: str
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str


@dataclass(frozen=True)
class Request:
    """What to measure, where and how.

    Attributes
    ----------
    library
        The file that is sent.
    code
        Says how the file is opened there; None: as a library.
    cases
        What it is run with, and what must come of it; with the first it is timed.
    limit_s
        For one subject.
    least_ms
        No call can have taken less.
    timeout_s
        The server's deadline for the whole session.
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
    least_ms: float
    timeout_s: float
    cases: tuple[Case, ...]
    code: FileCode | None = None


def ready() -> None:
    """Do nothing: a worker that answers has imported everything."""


def measure(request: Request) -> list[Result]:
    """Upload a file; of its functions, one after the other, compare what it computes, then time it.

    The session ends after the first failure: what a function did to its process must not show in the results
    of others. It ends, too, when what is left of its time is no longer enough for a subject.

    Returns
    -------
    list
        Of the first subjects, one at least.

    Raises
    ------
    ToolchainError
        The lab, not a candidate, is at fault.
    CheckError
        The board says of itself, or of the time it took, what cannot be right.
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
    except tvm.error.RPCSessionTimeoutError:
        results.append(Result(failure="timeout", message=f"not done within {request.limit_s:.0f} s"))
    except ToolchainError:
        raise
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        results.append(Result(failure="upload", message=first_line(error)))
    return results


@dataclass(frozen=True)
class _Opened:
    """A session that has loaded the file."""

    request: Request
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
                if expected is None:  # nothing is known of them: what the first candidate computes is right
                    case.expect(outputs)
                elif problem := wrong(outputs, expected):
                    return Result(failure="wrong result", message=problem)
            return self._timed(subject, tensors)
        except (tvm.error.RPCSessionTimeoutError, ToolchainError):
            raise
        except Exception as error:  # see above
            kind, message = failure_of(error, stage, kind_of(subject.memory))
            return Result(failure=kind, message=message)

    def _timed(self, subject: Subject, tensors: Sequence[tvm.runtime.Tensor]) -> Result:
        request = self.request
        often = Often(request.number, request.repeat, request.min_repeat_ms)
        times = self.file.time(subject.function, tensors, subject.memory, often)
        return Result(
            _believed(self.board, times, request),
            governor=self.facts.governor,
            temperature_c=self.facts.temperature_c,
            modelled=times.modelled,
        )


def _open(session: tvm.rpc.RPCSession, request: Request) -> _Opened:
    """Upload the file and load it."""
    board = request.key.partition("@")[2] or request.key
    facts = _facts(board, session.get_function("edge.info")())
    session.upload(str(request.library))
    opens = request.code.open if request.code else _Library
    return _Opened(request, board, facts, opens(session, request.library.name, board), Operands(session))


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
        raise lie(board, what, f"it is {shown(said)}, no text")
    return understood(EdgeRtInfo, said, board, what)


def _believed(board: str, times: Times, request: Request) -> tuple[float, ...]:
    """Return the milliseconds; what no clock or model can have shown must not become a record."""
    for ms in times.ms:
        problem = ""
        if not ms >= request.least_ms:
            problem = f"{shown(ms)} ms, and nothing of its kind is done in less than {request.least_ms:.3g}"
        elif not (times.modelled or ms <= request.timeout_s * 1e3):
            problem = f"{shown(ms / 1e3)} s of a session that ends after {request.timeout_s:g} s"
        if problem:
            raise lie(board, "the time of a measurement", problem)
    return times.ms


def _arrays(parameters: tuple[Parameter, ...], case: Case) -> list[Array]:
    """Return what a candidate is called with, as it lies in memory."""
    arguments = case.arguments()
    return [parameter.filled(arguments.get(place)) for place, parameter in enumerate(parameters)]
