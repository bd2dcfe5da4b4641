"""One candidate on a board, through the lab; runs in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm

from toolchain.answers import lie, shown, understood
from toolchain.boards.edge_rt.answers import Facts
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.records.record import Failure
from toolchain.rpc.client import Grant
from toolchain.rpc.session import connect
from toolchain.tasks.parameter import Array, Parameter
from toolchain.tasks.reference import Case
from toolchain.tasks.tuner import Result
from toolchain.tuning.correctness import wrong


@dataclass(frozen=True)
class Request:
    """What to measure, where and how.

    Attributes
    ----------
    parameters
        Of the function; the last `outputs` are written by it.
    memory
        Kind of the device in whose memory they lie.
    cases
        What it is run with, and what must come of it; with the first it is timed.
    timeout_s
        The server's deadline for the whole session.
    """

    grant: Grant
    key: str
    library: Path
    parameters: tuple[Parameter, ...]
    outputs: int
    memory: str
    threads: int
    cluster: str
    number: int
    repeat: int
    min_repeat_ms: int
    timeout_s: float
    cases: tuple[Case, ...]


def ready() -> None:
    """Do nothing: a worker that answers has imported everything."""


def measure(request: Request) -> Result:
    """Upload a library, compare what it computes, then time it.

    Raises
    ------
    ToolchainError
        The lab, not the candidate, is at fault.
    CheckError
        The board says of itself, or of the time it took, what cannot be right.
    """
    session = connect(
        request.grant,
        request.key,
        request.timeout_s,
        threads=request.threads,
        cluster=request.cluster,
    )
    board = request.key.partition("@")[2] or request.key
    stage: Failure = "upload"
    try:
        facts = _facts(board, session.get_function("edge.info")())
        session.upload(str(request.library))
        library = session.load_module(request.library.name)
        device = session.device(request.memory)
        for case in reversed(request.cases):
            stage = "upload"
            tensors = [tvm.runtime.tensor(array, device) for array in _arrays(request.parameters, case)]
            stage = "runtime"
            library["main"](*tensors)
            written = list(zip(request.parameters, tensors, strict=True))[-request.outputs :]
            outputs = [parameter.logical(tensor.numpy()) for parameter, tensor in written]
            if problem := _compare(outputs, case):
                return Result(failure="wrong result", message=problem)
        timed = library.time_evaluator(
            "main",
            device,
            number=request.number,
            repeat=request.repeat,
            min_repeat_ms=request.min_repeat_ms,
        )(*tensors)
        return Result(
            _milliseconds(board, timed.results, request.timeout_s),
            governor=facts.governor,
            temperature_c=facts.temperature_c,
        )
    except tvm.error.RPCSessionTimeoutError:
        return Result(failure="timeout", message=f"not done within {request.timeout_s:.0f} s")
    except ToolchainError:
        raise
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        return Result(failure=stage, message=first_line(error))


def _facts(board: str, said: object) -> Facts:
    what = "the answer of edge.info"
    if not isinstance(said, str):
        raise lie(board, what, f"it is {shown(said)}, no text")
    return understood(Facts, said, board, what)


def _milliseconds(board: str, results: Sequence[float], longest_s: float) -> tuple[float, ...]:
    """Return measured seconds as milliseconds; what no clock can have shown must not become a record."""
    for seconds in results:
        if not 0 < seconds <= longest_s:
            problem = f"{shown(seconds)} s of a session that ends after {longest_s:g} s"
            raise lie(board, "the time of a measurement", problem)
    return tuple(seconds * 1e3 for seconds in results)


def _arrays(parameters: tuple[Parameter, ...], case: Case) -> list[Array]:
    """Return what a candidate is called with, as it lies in memory."""
    arguments = case.arguments()
    return [parameter.filled(arguments.get(place)) for place, parameter in enumerate(parameters)]


def _compare(outputs: list[Array], case: Case) -> str:
    """Return what is wrong with the outputs; where nothing is known of them, the first to come are right."""
    expected = case.expected()
    if expected is None:
        case.expect(outputs)
        return ""
    return wrong(outputs, expected)
