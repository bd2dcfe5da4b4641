"""An SSH connection to a board, with a pinned host key and a heartbeat that detects a dead board."""

from __future__ import annotations

import contextlib
import errno
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import paramiko

from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.authentication import AUTH_S, log_in, log_in_with_password
from toolchain.boards.ssh.hostkeys import fingerprint
from toolchain.boards.ssh.route import Link, Route, resolve
from toolchain.boards.transport import LostError, WayError
from toolchain.errors import ToolchainError, UsageError
from toolchain.foreign import first_line

HANDSHAKE_S = 15.0
CHANNEL_S = 15.0
BEAT_S = 2.0  # send a keep-alive request after that much silence
SILENCE_S = 8.0  # a board that does not answer for that long is lost
_TICK_S = 0.5
UNKNOWN_SIGNAL = 127  # sshd names only the signals of RFC 4254

_MOST_UNREAD = 2 * paramiko.common.DEFAULT_WINDOW_SIZE  # of a channel: twice its flow-control window

# Authenticated ciphers come first: they need half the CPU time in Python.
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes256-ctr")
_RSA = ("rsa-sha2-512", "rsa-sha2-256")

_log = logging.getLogger("paramiko")  # prints tracebacks of errors that we report ourselves
_log.addHandler(logging.NullHandler())
_log.propagate = False


class _WatchedSocket:
    """A socket that fails once the board has been silent for too long.

    paramiko's reading thread calls it ten times a second, and so does every blocked writer; no thread of
    ours is needed to detect silence. Only time in which this process ran counts as silence.

    Attributes
    ----------
    cause
        Why the connection ended; None while it works. paramiko ends the channels, and wakes the threads that
        wait for them, before it reports the connection as inactive.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self.silence = 0.0
        self.limit = float("inf")
        self.cause: BaseException | None = None
        self._closed = False  # paramiko reads this attribute of sockets
        self._tick = time.monotonic()

    def recv(self, size: int) -> bytes:
        try:
            data = self._link.socket.recv(size)
        except TimeoutError:
            self._judge()
            raise
        except OSError as error:
            self.cause = self.cause or error
            raise
        if not data:
            self.cause = self.cause or EOFError()
        self.silence = 0.0
        self._tick = time.monotonic()
        return data

    def send(self, data: bytes) -> int:
        try:
            return self._link.socket.send(data)
        except TimeoutError:
            self._judge()
            raise
        except OSError as error:
            self.cause = self.cause or error
            raise

    def settimeout(self, seconds: float | None) -> None:
        self._link.socket.settimeout(seconds)

    def close(self) -> None:
        self._closed = True
        # close() alone does not wake a thread that waits in recv or send.
        with contextlib.suppress(OSError):
            self._link.socket.shutdown(socket.SHUT_RDWR)

    def _judge(self) -> None:
        now = time.monotonic()
        self.silence += min(now - self._tick, _TICK_S)
        self._tick = now
        if self.silence > self.limit:
            # Not TimeoutError: paramiko would retry. paramiko also needs an errno beside the text.
            silent = f"nothing was heard from it for {self.limit:g} s"
            self.cause = self.cause or ConnectionAbortedError(errno.ECONNABORTED, silent)
            raise self.cause


def _note_exit_signal(channel: Any, message: Any) -> None:
    """Handle a channel request like paramiko, which drops the name of the signal that ended a command."""
    position = message.packet.tell()
    if message.get_text() != "exit-signal":
        message.packet.seek(position)
        paramiko.Channel._handle_request(channel, message)
        return
    message.get_boolean()
    name = f"SIG{message.get_text()}"
    channel.exit_signal = signal.Signals[name] if name in signal.Signals.__members__ else UNKNOWN_SIGNAL
    channel.status_event.set()


def _within_window(feed: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap paramiko's data handler, which stores without limit: fail if a server exceeds the window."""

    def checked(channel: Any, message: Any) -> None:
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > _MOST_UNREAD:
            raise paramiko.SSHException("it sent more than it was allowed to")
        feed(channel, message)

    return checked


class _Transport(paramiko.Transport):  # type: ignore[misc]
    _channel_handler_table = {  # noqa: RUF012 - as in the class it refines
        **paramiko.Transport._channel_handler_table,
        paramiko.common.MSG_CHANNEL_DATA: _within_window(paramiko.Channel._feed),
        paramiko.common.MSG_CHANNEL_EXTENDED_DATA: _within_window(paramiko.Channel._feed_extended),
        paramiko.common.MSG_CHANNEL_REQUEST: _note_exit_signal,
    }


class SshConnection:
    """An SSH connection, on which several threads may open channels."""

    def __init__(self, address: SshAddress, password: str | None = None) -> None:
        """Connect and log in.

        Raises
        ------
        LostError
            The board cannot be reached or does not answer in time.
        UsageError
            The host key is not the pinned one, or the login is rejected.
        """
        self.label = address.label
        route = resolve(address)
        self._ended = threading.Event()
        self._link, self._socket, self._transport = _handshake(address, route, address.host_key)
        try:
            _check_host_key(self._transport, address)
            if password is None:
                log_in(self._transport, route, self.label)
            else:
                log_in_with_password(self._transport, route.user, password, self.label)
        except BaseException:
            self.close()
            raise
        self._socket.silence = 0.0
        self._socket.limit = SILENCE_S
        threading.Thread(target=self._beat, name=f"heartbeat {self.label}", daemon=True).start()

    @property
    def alive(self) -> bool:
        """Whether the connection works, as far as is known."""
        ended = self._ended.is_set() or self._socket.cause is not None
        return not ended and bool(self._transport.is_active())

    def channel(self) -> Any:
        """Open a session channel.

        Raises
        ------
        LostError
            The connection is lost.
        ToolchainError
            The server opens no more channels.
        """
        try:
            channel = self._transport.open_session(timeout=CHANNEL_S)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self.alive:
                raise ToolchainError(f"{self.label} allows no more sessions:  {first_line(error)}") from error
            raise self.lost() from error
        channel.exit_signal = None
        return channel

    def lost(self) -> LostError:
        """Return the error for a connection that has ended."""
        cause = self._socket.cause or self._transport.get_exception() or self._cause
        self._cause = cause
        reason = getattr(cause, "strerror", None) or str(cause or "") or "it closed the connection"
        return LostError(
            f"{self.label}: the connection was lost: {reason}",
            "when it can be reached again, run the same command",
        )

    _cause: BaseException | None = None

    def close(self) -> None:
        """Close the connection; watchers on the board then end the commands that still run there."""
        self._ended.set()
        self._transport.close()
        self._socket.close()
        self._link.close()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_S) and self._transport.is_active():
            if self._socket.silence >= BEAT_S / 2:
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    self._transport.global_request("keepalive@openssh.com", wait=True)


def ask_host_key(address: SshAddress) -> str:
    """Return the server's host key, without logging in."""
    link, _, transport = _handshake(address, resolve(address), None)
    try:
        key = transport.get_remote_server_key()
        return f"{key.get_name()} {key.get_base64()}"
    finally:
        transport.close()
        link.close()


def _handshake(
    address: SshAddress, route: Route, pinned: str | None
) -> tuple[Link, _WatchedSocket, paramiko.Transport]:
    link = Link(route, address.label)
    watched = _WatchedSocket(link)
    try:
        transport = _Transport(watched)
        transport.banner_timeout = transport.handshake_timeout = HANDSHAKE_S
        transport.auth_timeout = AUTH_S
        options = transport.get_security_options()
        options.ciphers = _CIPHERS
        if pinned is not None:
            kind = pinned.split()[0]
            options.key_types = _RSA if kind == "ssh-rsa" else (kind,)
        try:
            transport.start_client(timeout=HANDSHAKE_S)
            transport.get_remote_server_key()  # fails unless the handshake is complete
        except paramiko.IncompatiblePeer as error:
            transport.close()
            if pinned is not None and "host key" in str(error):
                raise _other_key(address, "no key of that type") from error
            raise ToolchainError(
                f"{address.label}: its SSH server is too old for us: {first_line(error)}"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            transport.close()
            complaint = link.complaint()
            said = complaint or f"no SSH server answered within {HANDSHAKE_S:g} s ({first_line(error)})"
            # ssh says so if the jump host was reached, and the board not from there.
            lost = WayError if complaint and "stdio forwarding failed" not in complaint else LostError
            raise lost(
                f"{address.label}: {route.host} port {route.port}: {said}",
                "is that the port of its SSH server?",
            ) from error
    except BaseException:
        link.close()
        raise
    return link, watched, transport


def _check_host_key(transport: paramiko.Transport, address: SshAddress) -> None:
    key = transport.get_remote_server_key()
    offered = f"{key.get_name()} {key.get_base64()}"
    if offered != " ".join(address.host_key.split()[:2]):
        raise _other_key(address, fingerprint(offered))


def _other_key(address: SshAddress, offered: str) -> ToolchainError:
    name = address.name or "NAME"
    return UsageError(
        f"{address.label}: the host key of {address.host} has changed: it offers {offered}, pinned is "
        f"{fingerprint(address.host_key)}; "
        "either the board was reinstalled or someone intercepts the connection",
        f"if it was reinstalled: `toolchain board remove {name}`, then `toolchain board add` it again",
    )
