"""Asks every board's driver for its devices before anything is tuned.

Records are valid for the device that the driver names, whatever the board's class says: so times from a test
bed such as PoCL are never used for the class's own device.
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
from toolchain.tuning.boards.pool import BUSY_S, GRACE_S, START_S, BoardPool, PooledBoard

_ANSWER_S = 40.0  # for a driver's answer: PoCL takes 0.2 s on a PC, and 10 s in QEMU
_PAUSE_S = 0.5
Result = TypeVar("Result")
_WHAT = "the answer of edge.devices"


class _Drivers(Answer):
    devices: Several[DevicesThere]


@dataclass(frozen=True)
class DeviceQuestion:
    """The arguments of `ask`: a board's server and a kind of device.

    Attributes
    ----------
    seconds
        Deadline of the session; it ends the session of a driver that hangs.
    """

    grant: Grant
    key: str
    board: str
    kind: str
    seconds: float


def ask(question: DeviceQuestion) -> DevicesThere:
    """Ask a board for its devices of a kind; runs in a worker process, since a driver may hang or crash.

    Raises
    ------
    ToolchainError
        The session cannot be opened, or ends before the driver answers.
    CheckError
        The answer has the wrong form.
    """
    session = connect(question.grant, question.key, question.seconds)
    try:
        said = session.get_function("edge.devices")()
    except tvm.error.RPCSessionTimeoutError:
        return _none(question.kind, f"its driver did not answer within {question.seconds:g} s")
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        return _none(question.kind, f"its driver ended the process that asked it ({first_line(error)})")
    if not isinstance(said, str):
        raise lie(question.board, _WHAT, f"it is {shown(said)}, not text")
    found = understood(_Drivers, f'{{"devices": {said}}}', question.board, _WHAT).devices
    there = next((each for each in found if each.kind == question.kind), None)
    return there or _none(question.kind, "its edge-rt knows no such kind")


def device_there(pool: BoardPool, kind: str) -> str:
    """Return the key of the boards' device of a kind, with the name that its driver gives it.

    Raises
    ------
    UsageError
        A board has no such device, or its driver does not answer, or boards have different devices.
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
                f"`toolchain board show {board} --devices` asks its driver; if the driver hangs, restart the "
                "board. --device cpu uses its cores",
            )
        names[board] = device_key(kind, devices.names[0])
    return _one(names)


def check_driver(pool: BoardPool, device: str) -> None:
    """Check that every board has a device, for kinds where the code names the driver.

    Parameters
    ----------
    device
        `KIND` or `KIND:NAME`. A simulation is used only if its name is given.

    Raises
    ------
    UsageError
        A board has no such device.
    ToolchainError
        A board cannot be reached.
    """
    kind, _colon, name = device.partition(":")
    for pooled, there in zip(pool.all, _all_asked(pool, kind), strict=True):
        # `problem` is set if the board has only simulations of the kind.
        if name in there.names or (not name and there.problem is None):
            continue
        board, others = pooled.board.name, ", ".join(f"--device {kind}:{each}" for each in there.names)
        raise UsageError(
            f"--device {device}: board {board} has none: {there.problem or 'no driver of this name'}",
            f"name one that it has: {others}" if others else f"`toolchain board show {board}`",
        )


def told(key: str, made_for: str) -> str:
    """Return a notice if the driver's device is not the one the code is made for; else an empty string."""
    if key == made_for:
        return ""
    return f"records are stored for {key}: builds use them with --device {quote(key)}"


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
    # Starts the worker before the grant: a server withdraws its offer if no client connects in 6 s.
    _call(pooled, START_S, _ready)
    until = time.monotonic() + BUSY_S
    while True:
        with pool.tracker() as tracker:
            grant = wait_for_server(tracker, pooled.key, BUSY_S, _ANSWER_S)
        question = DeviceQuestion(grant, pooled.key, pooled.board.name, kind, _ANSWER_S)
        try:
            return _call(pooled, _ANSWER_S + GRACE_S, ask, question)
        except (CheckError, _SilentError):
            raise
        except ToolchainError:  # its server went away after its offer and will be back soon
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
    """The worker process that asks a board hung or died."""


def _none(kind: str, problem: str) -> DevicesThere:
    return DevicesThere(kind=kind, names=(), problem=problem)
