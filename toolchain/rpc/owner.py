"""Finds the user at the other end of a connection, since every account can connect to a loopback port."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from toolchain.configuration.settings import settings

_WAIT_S = 1.0
# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_TCP_ESTABLISHED = 1
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ASKED = struct.Struct("=BBBBI")  # inet_diag_req_v2 up to its socket: family, protocol, ext, pad, states
_SOCKET = struct.Struct("!HH16s16sIII")  # inet_diag_sockid: ports, addresses, interface, cookie
_ANSWER = struct.Struct("=BBBB48sIIIII")  # inet_diag_msg: family, state, …, uid, inode


class Connection(Protocol):
    """The methods of a TCP socket that are needed here."""

    def getsockname(self) -> tuple[str, int]:
        """Return our address and port."""

    def getpeername(self) -> tuple[str, int]:
        """Return the other end's."""


class UnixConnection(Protocol):
    """The methods of a Unix socket that are needed here."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return an option's value."""


def refusal(connection: Connection) -> str | None:
    """Return why a TCP connection from this machine must be refused, None if it is accepted.

    Its other end must belong to this process's user or to root.
    """
    uid = peer_uid(connection)
    if uid is None:
        if settings().unchecked_peers:
            return None
        return "it can't be seen whose it is (the setting unchecked_peers allows that)"
    return _refused(uid)


def unix_refusal(connection: UnixConnection) -> str | None:
    """Return why a connection to a Unix socket must be refused, None if not; as `refusal`."""
    _, uid, _ = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return _refused(uid)


def peer_uid(connection: Connection) -> int | None:
    """Return the user id of the process at the other end of an IPv4 connection; None if it is unknown.

    Linux gives user id 0 for a socket that its process has closed; it counts as unknown.
    """
    try:
        ours, theirs = connection.getsockname(), connection.getpeername()
    except OSError:  # it has gone
        return None
    try:
        return _ask_kernel(ours, theirs)
    except OSError:  # no such socket, or a kernel without this way to ask
        return _look_up(ours, theirs)


def _refused(uid: int) -> str | None:
    return None if uid in (os.getuid(), 0) else f"it is user {uid}'s"


def _ask_kernel(ours: tuple[str, int], theirs: tuple[str, int]) -> int | None:
    """Ask the kernel for this one socket, in 40 µs; listing all sockets in /proc takes milliseconds."""
    addresses = socket.inet_aton(theirs[0]), socket.inet_aton(ours[0])
    which = _SOCKET.pack(theirs[1], ours[1], *addresses, 0, _NO_COOKIE, _NO_COOKIE)
    asked = _ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 1 << _TCP_ESTABLISHED) + which
    size = _HEADER.size + len(asked)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_WAIT_S)
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + asked)
        answer = kernel.recv(4096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _SOCK_DIAG_BY_FAMILY:
        raise OSError("the kernel knows no such socket")
    _, state, *_, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return int(uid) if state == _TCP_ESTABLISHED and inode else None


def _look_up(ours: tuple[str, int], theirs: tuple[str, int]) -> int | None:
    with suppress(OSError):
        for table, prefix in (("tcp", ""), ("tcp6", "0" * 16 + "FFFF0000")):
            wanted = [prefix + _hexadecimal(*end) for end in (theirs, ours)]
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == wanted:
                    attached = int(fields[3], 16) == _TCP_ESTABLISHED and fields[9] != "0"
                    return int(fields[7]) if attached else None
    return None


def _hexadecimal(address: str, port: int) -> str:
    return f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}:{port:04X}"
