"""Sessions with `edge-rt serve` through a tracker."""

from __future__ import annotations

from tvm import rpc

HOST = "127.0.0.1"


def request(tracker: int, timeout: float = 60) -> rpc.RPCSession:
    """Open a session with the board that the tracker has."""
    return rpc.connect_tracker(HOST, tracker).request("board", session_timeout=timeout)
