"""An SSH connection to a board, with a pinned host key and a heartbeat that detects a dead board."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any

import paramiko

from toolchain.boards.ssh.address import SshAddress, Way
from toolchain.boards.ssh.authentication import AUTH_S, log_in, log_in_with_password
from toolchain.boards.ssh.channel import Channel
from toolchain.boards.ssh.hostkeys import fingerprint, other_key
from toolchain.boards.ssh.route import Route, SocketLink, resolve
from toolchain.boards.ssh.wire import Link, WatchedSocket, Wire
from toolchain.boards.transport import LostError, WayError
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import first_line, printable

HANDSHAKE_S = 15.0
_HANDSHAKE_ROUNDS = 10.0  # times as long as the connection to its port took, on a link with long round trips
CHANNEL_S = 15.0
BEAT_S = 2.0  # send a keep-alive request after that much silence
_END_S = 2.0  # between the end of a channel and that of its connection, if that was the cause
_LOOK_S = 0.05

# Authenticated ciphers come first: they need half the CPU time in Python.
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_RSA = ("rsa-sha2-512", "rsa-sha2-256")

_log = logging.getLogger("paramiko")  # prints tracebacks of errors that we report ourselves
_log.addHandler(logging.NullHandler())
_log.propagate = False


class NoSessionError(ToolchainError):
    """The server opens no more channels in this connection now."""


class NoAlgorithmError(UsageError):
    """The server offers no algorithm of some kind that paramiko has."""


class SshConnection:
    """An SSH connection, in which several threads may run commands.

    Attributes
    ----------
    way
        Who speaks with the board's server.
    reason
        Why it is not paramiko; empty if it is.
    """

    def __init__(
        self, label: str, way: Way, reason: str, link: Link, sock: WatchedSocket, wire: Wire
    ) -> None:
        self.label = label
        self.way: Way = way
        self.reason = reason
        self._link, self._socket, self._wire = link, sock, wire
        self._ended = threading.Event()
        self._cause: BaseException | None = None

    @property
    def alive(self) -> bool:
        """Whether the connection works, as far as is known."""
        ended = self._ended.is_set() or self._socket.cause is not None
        return not ended and bool(self._wire.is_active())

    def ended(self) -> bool:
        """Return whether the connection has ended, or does so within two seconds.

        Servers that are shut down close the channels before.
        """
        deadline = time.monotonic() + _END_S
        while self.alive and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        return not self.alive

    def open(self) -> Channel:
        """Open a channel for a command.

        Raises
        ------
        NoSessionError
            The server opens no more channels.
        LostError
            The connection is lost.
        """
        try:
            return Channel(self, self._wire.open_session(timeout=CHANNEL_S))
        except paramiko.ChannelException as error:
            raise NoSessionError(
                f"{self.label} allows no more sessions in a connection: {first_line(error)}",
                "set `MaxSessions 10` in its sshd_config",
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self.alive:  # no answer in time
                self._socket.cause = ConnectionAbortedError(f"no answer within {CHANNEL_S:g} s")
                self.close()
            raise self.lost() from error

    def lost(self) -> LostError:
        """Return the error for a connection that has ended."""
        cause = self._socket.cause or self._wire.get_exception() or self._cause
        self._cause = cause
        reason = getattr(cause, "strerror", None) or str(cause or "") or self._link.complaint()
        return LostError(
            f"{self.label}: the connection was lost: {printable(reason) or 'it closed the connection'}",
            "when it can be reached again, run the same command",
        )

    def close(self) -> None:
        """Close the connection; watchers on the board then end the commands that still run there."""
        self._ended.set()
        self._wire.close()
        self._socket.close()
        self._link.close()

    def watch(self, round_trip_s: float) -> None:
        """Detect silence from now on; an answer took `round_trip_s` until now."""
        self._socket.begin(round_trip_s)
        threading.Thread(target=self._beat, name=f"heartbeat {self.label}", daemon=True).start()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S) and self._wire.is_active():
            if self._socket.silence >= BEAT_S / 2:
                asked_at = time.monotonic()
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    self._wire.global_request("keepalive@openssh.com", wait=True)
                    self._socket.answered(time.monotonic() - asked_at)


def connect(address: SshAddress, password: str | None = None) -> SshConnection:
    """Connect and log in by paramiko.

    Raises
    ------
    LostError
        The board cannot be reached or does not answer in time.
    NoAlgorithmError
        The server wants algorithms that paramiko lacks.
    UsageError
        The host key is not the pinned one, or the login is rejected.
    """
    route = resolve(address)
    link, sock, wire, round_trip_s = _handshake(address, route, address.host_key)
    connection = SshConnection(address.label, "paramiko", "", link, sock, wire)
    try:
        _check_host_key(wire, address)
        if password is None:
            log_in(wire, route, address.label)
        else:
            log_in_with_password(wire, route.user, password, address.label)
    except BaseException:
        connection.close()
        raise
    connection.watch(round_trip_s)
    return connection


def ask_host_key(address: SshAddress) -> str:
    """Return the server's host key, without logging in."""
    link, _, wire, _ = _handshake(address, resolve(address), None)
    try:
        key = wire.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"
    finally:
        wire.close()
        link.close()


def _handshake(
    address: SshAddress, route: Route, pinned: str | None
) -> tuple[Link, WatchedSocket, Wire, float]:
    """Return the link, its socket, the protocol on it, and the seconds that the connection took."""
    begun = time.monotonic()
    link = SocketLink(route, address.label)
    round_trip_s = time.monotonic() - begun
    limit_s = max(HANDSHAKE_S, _HANDSHAKE_ROUNDS * round_trip_s)
    watched = WatchedSocket(link)
    try:
        wire = Wire(watched)
        wire.banner_timeout = wire.handshake_timeout = limit_s
        wire.auth_timeout = AUTH_S
        options = wire.get_security_options()
        options.ciphers = _CIPHERS
        if pinned is not None:
            kind = pinned.split()[0]
            options.key_types = _RSA if kind == "ssh-rsa" else (kind,)
        try:
            wire.start_client(timeout=limit_s)
            wire.get_remote_server_key()  # fails unless the handshake is complete
        except paramiko.IncompatiblePeer as error:
            wire.close()
            if pinned is not None and "host key" in str(error):
                raise other_key(address, "no key of that type") from error
            raise NoAlgorithmError(
                f"{address.label}: its SSH server wants what paramiko lacks: {first_line(error)}",
                'the OpenSSH client may have it: `ssh = "openssh"` in its entry of toolchain.toml',
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            wire.close()
            complaint = link.complaint()
            reason = complaint or f"no SSH server answered within {limit_s:g} s ({first_line(error)})"
            # ssh says so if the jump host was reached, and the board not from there.
            lost = WayError if complaint and "stdio forwarding failed" not in complaint else LostError
            raise lost(
                f"{address.label}: {route.host} port {route.port}: {reason}",
                "is that the port of its SSH server?",
            ) from error
    except BaseException:
        link.close()
        raise
    return link, watched, wire, round_trip_s


def _check_host_key(wire: Any, address: SshAddress) -> None:
    key = wire.get_remote_server_key()
    offered = f"{key.get_name()} {key.get_base64()}"
    if offered != " ".join(address.host_key.split()[:2]):
        raise other_key(address, fingerprint(offered))
