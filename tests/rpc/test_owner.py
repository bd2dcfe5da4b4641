"""Which user is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rpc.second_user import UID, as_second_user, needs_a_second_user
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


def connected(of_another_user: bool, check: Callable[[socket.socket], None]) -> None:
    """Check a connection over loopback from this user, or from another one, while it is open."""
    with socket.create_server((HOST, 0)) as listener, ExitStack() as held:
        address = listener.getsockname()

        def speak() -> None:
            with socket.create_connection(address, timeout=60) as connection:
                connection.recv(1)

        if of_another_user:
            other = threading.Thread(target=as_second_user, args=(speak,))
            other.start()
            held.callback(other.join, 60)
        else:
            held.enter_context(socket.create_connection(address))
        with listener.accept()[0] as connection:
            check(connection)


@pytest.mark.parametrize("way", ["asked", "listed"])
def test_another_users_connection_is_refused_by_number(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_a_second_user()
    if way == "listed":
        monkeypatch.setattr(owner, "_NETLINK_SOCK_DIAG", 99)

    def check(connection: socket.socket) -> None:
        assert owner.peer_uid(connection) == UID
        assert owner.refusal(connection) == f"it is user {UID}'s"

    connected(True, check)


def test_a_peer_that_has_reset_the_connection_is_not_seen() -> None:
    def check(connection: socket.socket) -> None:
        connection.close()
        assert owner.peer_uid(connection) is None
        assert owner.refusal(connection) is not None

    connected(False, check)


def test_both_ends_of_a_unix_socket_are_this_users() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert owner.unix_refusal(ours) is None


def test_another_users_unix_socket_is_refused(tmp_path: Path) -> None:
    needs_a_second_user()
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        Path(path).chmod(0o777)
        listener.listen()

        def connect() -> None:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)

        as_second_user(connect)
        with listener.accept()[0] as connection:  # its user is known though it has gone
            assert owner.unix_refusal(connection) == f"it is user {UID}'s"
