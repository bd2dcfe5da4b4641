"""Which user is at the other end of a connection."""

from __future__ import annotations

import os
import socket

import pytest

from tests.rpc.second_user import as_second_user, needs_a_second_user
from tests.waiting import until
from toolchain.rpc import frames, owner
from toolchain.rpc.frames import HOST


def test_a_socket_that_was_closed_is_nobodys() -> None:
    """The kernel shows it with user id 0."""
    needs_a_second_user()
    with socket.create_server((HOST, 0)) as listener:

        def speak_and_go() -> None:
            with socket.create_connection(listener.getsockname(), timeout=60) as connection:
                connection.sendall(frames.MAGIC)

        as_second_user(speak_and_go)
        with listener.accept()[0] as connection:
            until(lambda: owner.peer_uid(connection) is None)
            assert owner.refusal(connection) is not None


@pytest.mark.parametrize("way", ["asked", "listed"])
def test_whose_a_connection_is(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "listed":
        monkeypatch.setattr(owner, "_NETLINK_SOCK_DIAG", 99)  # a kernel that has no such way to ask
    with (
        socket.create_server((HOST, 0)) as listener,
        socket.create_connection(listener.getsockname()) as ours,
        listener.accept()[0] as connection,
    ):
        assert owner.peer_uid(connection) == os.getuid()
        assert owner.refusal(connection) is None
        ours.close()
        assert owner.peer_uid(connection) is None


def test_where_it_cannot_be_seen_the_setting_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.configuration.settings import configuration

    monkeypatch.setattr(owner, "peer_uid", lambda _: None)
    with socket.create_server((HOST, 0)) as listener, socket.create_connection(listener.getsockname()):
        connection = listener.accept()[0]
        with connection:
            assert "unchecked_peers" in str(owner.refusal(connection))
            monkeypatch.setenv("TOOLCHAIN_UNCHECKED_PEERS", "true")
            configuration.cache_clear()
            assert owner.refusal(connection) is None
