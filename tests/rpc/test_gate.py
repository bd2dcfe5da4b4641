"""A gate whose server is not there."""

from __future__ import annotations

import socket

import pytest

from toolchain.rpc.frames import HOST
from toolchain.rpc.gate import Gate


def test_a_server_that_is_not_there() -> None:
    def nowhere() -> socket.socket:
        raise ConnectionRefusedError("nobody")

    opened = Gate("board b: its server", nowhere, lambda _: None)
    with socket.create_connection((HOST, opened.port), timeout=60) as connection:
        assert connection.recv(1) == b""
    opened.close()
    opened.join()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, opened.port), timeout=60)
