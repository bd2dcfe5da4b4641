"""Which device measures: every board is asked before anything is tuned on it.

Records hold for the device that its driver names, whatever the board's class says: what a test bed such as
PoCL measures is then never taken for what the class's own device would do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from shlex import quote
from typing import Any, TypeVar

import tvm

from toolchain.answers import Answer, Several, lie, shown, understood
from toolchain.boards.edge_rt.answers import DevicesThere
from toolchain.devices.device import device_key
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.foreign import first_line
from toolchain.processes.worker import WorkerDiedError
from toolchain.rpc.client import Grant
from toolchain.rpc.session import connect, wait_for_server
from toolchain.tuning.boards.pool import BoardPool, PooledBoard

_START_S = 120.0  # for a worker to import TVM on a busy machine; it takes 2 s
_ANSWER_S = 40.0  # for a driver: PoCL takes 0.2 s on a PC, and 10 s under qemu
_GRACE_S = 20.0
_WAIT_S = 30.0  # for a board that somebody else measures on, and for one whose server is started anew
_PAUSE_S = 0.5
Result = TypeVar("Result")
_WHAT = "the answer of edge.devices"


class _Drivers(Answer):
    devices: Several[DevicesThere]


@dataclass(frozen=True)
class Question:
    """A board's server, and the kind of device that is asked for.

    Attributes
    ----------
    seconds
        The session's deadline, which a driver that hangs meets.
    """

    grant: Grant
    key: str
    board: str
    kind: str
    seconds: float


def ask(question: Question) -> DevicesThere:
    """Return what a board has of a kind; runs in a worker process, where a driver may hang or crash.

    Raises
    ------
    ToolchainError
        The session cannot be opened, or ends before the driver answers.
    CheckError
        The answer is none.
    """
    session = connect(question.grant, question.key, question.seconds)
    try:
        said = session.get_function("edge.devices")()
    except tvm.error.RPCSessionTimeoutError:
        return _none(question.kind, f"its driver did not answer within {question.seconds:g} s")
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        return _none(question.kind, f"its driver ended the process that asked it ({first_line(error)})")
    if not isinstance(said, str):
        raise lie(question.board, _WHAT, f"it is {shown(said)}, no text")
    found = understood(_Drivers, f'{{"devices": {said}}}', question.board, _WHAT).devices
    there = next((each for each in found if each.kind == question.kind), None)
    return there or _none(question.kind, "its edge-rt knows no such kind")


def device_there(pool: BoardPool, kind: str) -> str:
    """Return what the boards' drivers call the device that measures, as records' keys have it.

    Raises
    ------
    UsageError
        A board has none, or a driver that does not answer; or boards have different ones.
    ToolchainError
        A board cannot be reached.
    """
    there = _all_asked(pool, kind)
    names: dict[str, str] = {}
    for pooled, devices in zip(pool.all, there, strict=True):
        board = pooled.board.name
        if not devices.names:
            raise UsageError(
                f"--device {kind}: board {board} has none: {devices.problem or 'its driver names no device'}",
                f"`toolchain board show {board} --devices` asks its driver; a driver that hangs is back when "
                "the board was started anew. --device cpu is for its cores",
            )
        names[board] = device_key(kind, devices.names[0])
    return _one(names)


def check_driver(pool: BoardPool, device: str) -> None:
    """Refuse boards without a device of a kind whose devices are told apart by their drivers' names.

    Parameters
    ----------
    device
        A kind, or a kind and a name. A simulation is taken where its name is given, and nowhere else.

    Raises
    ------
    UsageError
        A board has none.
    ToolchainError
        A board cannot be reached.
    """
    kind, _colon, name = device.partition(":")
    for pooled, there in zip(pool.all, _all_asked(pool, kind), strict=True):
        # Where nothing but simulations is there, that is the problem.
        if name in there.names or (not name and there.problem is None):
            continue
        board, others = pooled.board.name, ", ".join(f"--device {kind}:{each}" for each in there.names)
        raise UsageError(
            f"--device {device}: board {board} has none: {there.problem or 'no driver of this name'}",
            f"what it has is taken by its name: {others}" if others else f"`toolchain board show {board}`",
        )


def told(key: str, made_for: str) -> str:
    """Return what to tell where a driver names another device than the code is made for; else nothing."""
    if key == made_for:
        return ""
    return f"records are kept for {key}: builds take them with --device {quote(key)}"


def _one(names: Mapping[str, str]) -> str:
    (first, name), *others = names.items()
    for board, other in others:
        if other != name:
            raise UsageError(
                f"board {first} computes on {name}, board {board} on {other}: what is fast on one says "
                "nothing about the other",
                f"tune one after the other: --board {first}, then --board {board}",
            )
    return name


def _all_asked(pool: BoardPool, kind: str) -> list[DevicesThere]:
    with ThreadPoolExecutor(len(pool.all)) as threads:
        return list(threads.map(lambda pooled: _asked(pool, pooled, kind), pool.all))


def _asked(pool: BoardPool, pooled: PooledBoard, kind: str) -> DevicesThere:
    # Before the grant: a server takes its offer back where nobody comes within six seconds.
    _call(pooled, _START_S, _ready)
    until = time.monotonic() + _WAIT_S
    while True:
        with pool.tracker() as tracker:
            grant = wait_for_server(tracker, pooled.key, _WAIT_S, _ANSWER_S)
        question = Question(grant, pooled.key, pooled.board.name, kind, _ANSWER_S)
        try:
            return _call(pooled, _ANSWER_S + _GRACE_S, ask, question)
        except (CheckError, _SilentError):
            raise
        except ToolchainError:  # its server went away between its offer and now, and is back soon
            if time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_S)


def _call(pooled: PooledBoard, deadline_s: float, function: Callable[..., Result], *arguments: Any) -> Result:
    try:
        return pooled.worker.call(deadline_s, function, *arguments)
    except (TimeoutError, WorkerDiedError) as error:
        raise _SilentError(
            f"board {pooled.board.name} does not say what devices it has: {error}",
            f"`toolchain board status {pooled.board.name}` shows how it is",
        ) from error


def _ready() -> None:
    """Do nothing: a worker that answers has imported everything."""


class _SilentError(ToolchainError):
    """The worker that asks a board has hung or died."""


def _none(kind: str, problem: str) -> DevicesThere:
    return DevicesThere(kind=kind, names=(), problem=problem)
