"""A board's SSH server that sends more than it may."""

from __future__ import annotations

import shlex
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from tests.boards.ssh.sshd import make_key
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import LostError

FLOOD = 200 * 2**20


def token_of(line: str) -> str:
    """Return the token of a command, which stands at the beginning of what its shell evaluates."""
    return shlex.split(line)[5].split()[2]


class Flooding(paramiko.ServerInterface):
    """Lets everybody in, says that a command runs, and sends without regard to the channel's window."""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        assert username and key
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        assert kind == "session" and chanid >= 0
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        token = token_of(command.decode())
        threading.Thread(target=self.flood, args=(channel, token), daemon=True).start()
        return True

    def flood(self, channel: paramiko.Channel, token: str) -> None:
        time.sleep(0.1)  # after the answer to the request
        channel.out_window_size = 2 * FLOOD
        try:
            channel.sendall(f"{token} ready 7\n".encode())
            for _ in range(FLOOD // 2**15):
                channel.sendall(bytes(2**15))
        except (OSError, EOFError):
            pass  # it was left


@pytest.fixture
def flooding(tmp_path: Path) -> Iterator[SshTransport]:
    host_key = paramiko.ECDSAKey.generate()
    servers = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                connection = listening.accept()[0]
            except OSError:
                return
            servers.append(paramiko.Transport(connection))
            servers[0].add_server_key(host_key)
            servers[0].start_server(server=Flooding())

        threading.Thread(target=serve, daemon=True).start()
        make_key(tmp_path / "key")
        pinned = f"{host_key.get_name()} {host_key.get_base64()}"
        port = listening.getsockname()[1]
        identity = tmp_path / "key"
        address = SshAddress("127.0.0.1", port, "me", pinned, identity, name="far", use_config=False)
        transport = SshTransport(address, ".")
        yield transport
        transport.close()
        for server in servers:
            server.close()


@pytest.mark.slow
def test_unread_output_is_dropped(flooding: SshTransport) -> None:
    tracemalloc.start()
    try:
        process = flooding.spawn(["anything"])
        with pytest.raises(LostError, match="far: the connection was lost: it sent more than it was allowed"):
            process.wait(60)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60_000_000
