"""Opens sessions with servers of the lab, and checks the server's version."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import tvm.rpc

from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import first_line
from toolchain.rpc.client import Grant, TrackerClient
from toolchain.runtime import expected_fingerprint

_CONNECT_S = 20.0  # to connect and to answer the first question; qemu-user under load takes about 1 s
# From the grant until the server's own clock runs, and from its end of a session to its next offer.
_MARGIN_S = _CONNECT_S + 10.0
_WITHDRAWN = "cannot find server that matches key"  # src/runtime/rpc/rpc_socket_impl.cc
_RESTART = "type `toolchain lab stop`, then `toolchain lab start`"


def open_session(
    host: str,
    port: int,
    key: str,
    timeout_s: float,
    wait_s: float,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    expected: str | None = None,
) -> tvm.rpc.RPCSession:
    """Wait for a free server of the tracker at `host:port`, and open a session with it.

    Parameters
    ----------
    key
        The board's tracker key, or `KEY@BOARD` for a certain board.
    timeout_s
        The server ends the session after this many seconds, whatever it does then.
    wait_s
        How long to wait for a free server.
    threads, cluster
        Threads and cluster of this session; None for those with which the server was started.
    expected
        The fingerprint that the server's runtime must have; this version's own by default.

    Raises
    ------
    UsageError
        The tracker has no such key; the message lists its keys.
    ToolchainError
        No server was free in time, the connection was lost, or the server has another version.
    """
    deadline = time.monotonic() + wait_s
    while True:
        with TrackerClient(host, port) as tracker:
            grant = wait_for_server(tracker, key, max(deadline - time.monotonic(), 0.0), timeout_s)
        try:
            return connect(grant, key, timeout_s, threads=threads, cluster=cluster, expected=expected)
        except _UnreachedError:  # it died between its offer and now: another one, or it again
            if time.monotonic() >= deadline:
                raise


def connect(
    grant: Grant,
    key: str,
    timeout_s: float,
    *,
    threads: int | None = None,
    cluster: str | None = None,
    expected: str | None = None,
) -> tvm.rpc.RPCSession:
    """Open a session with a granted server; see `open_session`."""
    try:
        session = _within_deadline(grant, key, partial(_connect, grant, key, timeout_s))
    except ToolchainError as error:
        raise _UnreachedError(error.message, error.hint) from error
    try:
        _within_deadline(
            grant, key, partial(_check_versions, session, key, expected or expected_fingerprint())
        )
        if threads is not None or cluster is not None:
            _within_deadline(grant, key, partial(_configure, session, key, threads or 0, cluster or ""))
    except BaseException:
        _cut(grant)  # whoever looks at the error holds the session: free the server now
        raise
    return session


class _UnreachedError(ToolchainError):
    """The server did not accept the session."""


def _check_versions(session: tvm.rpc.RPCSession, key: str, expected: str) -> None:
    fingerprint = str(_function(session, "edge.fingerprint", key)())
    if fingerprint != expected:
        raise ToolchainError(
            f"{key}: the server runs edge-rt {fingerprint}, this toolchain needs {expected}", _RESTART
        )


def _configure(session: tvm.rpc.RPCSession, key: str, threads: int, cluster: str) -> None:
    _function(session, "edge.configure", key)(threads, cluster)


def wait_for_server(tracker: TrackerClient, key: str, wait_s: float, timeout_s: float) -> Grant:
    """Wait for a free server; parameters and errors are those of `open_session`."""
    keys = tracker.summary()
    base = key.partition("@")[0]
    if base not in keys:
        known = ", ".join(sorted(keys)) or "none"
        raise UsageError(
            f"no board registers as {key!r} in the lab; its keys are: {known}",
            "`toolchain lab start BOARD`",
        )
    grant = tracker.request(key, wait_s, ttl_s=timeout_s + _MARGIN_S)
    if grant is None:
        counts = ", ".join(f"{name} {count}" for name, count in keys[base].items())
        raise ToolchainError(
            f"no server of {key} became free within {round(wait_s, 1):g} s (at the beginning: {counts})",
            "`toolchain lab status` shows who waits; a longer --wait, or end what uses the board",
        )
    return grant


def _connect(grant: Grant, key: str, timeout_s: float) -> tvm.rpc.RPCSession:
    try:
        return tvm.rpc.connect(grant.host, grant.port, grant.match_key, session_timeout=timeout_s)
    except tvm.error.InternalError as error:
        if _WITHDRAWN not in str(error):
            raise
        raise ToolchainError(
            f"{key}: the server at port {grant.port} has withdrawn its offer: nobody came in time",
            "type it again; a machine as busy as this one may need fewer things at once",
        ) from error


def _function(session: tvm.rpc.RPCSession, name: str, key: str) -> Callable[..., Any]:
    try:
        return session.get_function(name)  # type: ignore[no-any-return]
    except AttributeError as error:
        raise ToolchainError(
            f"{key}: the server there is not edge-rt (it has no {name})", _RESTART
        ) from error


def _within_deadline(grant: Grant, key: str, work: Callable[[], Any]) -> Any:
    """Do `work`, which talks to the granted server; cut the connection if it takes too long.

    TVM's client waits forever. Cutting the connection ends its wait, and so the thread.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def attempt() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=attempt, name=f"session with {key}", daemon=True)
    thread.start()
    thread.join(_CONNECT_S)
    if thread.is_alive():
        _cut(grant)
        thread.join(_CONNECT_S)
        raise ToolchainError(
            f"{key}: the server at port {grant.port} did not answer within {_CONNECT_S:g} s", _RESTART
        )
    if failure:
        if isinstance(failure[0], ToolchainError):
            raise failure[0]
        raise ToolchainError(
            f"{key}: the session with the server at port {grant.port} failed: {first_line(failure[0])}",
            _RESTART,
        ) from failure[0]
    return outcome[0]


def _cut(grant: Grant) -> None:
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # handles come and go meanwhile
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                if connection.getpeername()[:2] == (grant.host, grant.port):
                    connection.shutdown(socket.SHUT_RDWR)
