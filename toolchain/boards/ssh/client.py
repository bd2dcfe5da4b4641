"""The OpenSSH client as the carrier of a connection: it logs in, and paramiko's channels go through it.

The client runs as a ControlMaster whose socket lies in a private folder. It has one user, who connects to
that socket once, and it ends with that user, also if the user is killed.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.authentication import AUTH_S, RefusedError
from toolchain.boards.ssh.connection import SshConnection
from toolchain.boards.ssh.hostkeys import checked_host_key, other_key, write_known_hosts
from toolchain.boards.ssh.route import CONNECT_S, openssh_options
from toolchain.boards.ssh.wire import MuxWire, WatchedSocket
from toolchain.boards.transport import LostError, WayError
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import LONGEST, printable

_CONNECTED_S = CONNECT_S + AUTH_S + 5.0
_ANSWER_S = 5.0
_END_S = 2.0
_LOOK_S = 0.01
_MOST_PATH = 88  # bytes of a control socket's path: ssh adds 18 to it, and the kernel takes 107
_BEAT_S, _BEATS = 4, 4  # after so many unanswered requests, so far apart, the client ends
_OPTIONS = {
    "ControlMaster": "yes",
    "ControlPersist": "no",
    "ServerAliveInterval": str(_BEAT_S),
    "ServerAliveCountMax": str(_BEATS),
    "LogLevel": "INFO",  # with less the client is silent about a server without common algorithms
    "ConnectionAttempts": "1",
    # Nothing else of what an ssh_config may ask for on that host.
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
    "Tunnel": "no",
}

# The shell kills the client when its input ends, and ends with the client.
_TIED = """
exec 3<&0
"$@" </dev/null 3<&- &
client=$!
{ cat <&3 >/dev/null; kill "$client"; } 2>/dev/null &
watcher=$!
exec 3<&-
wait "$client"
code=$?
kill "$watcher"
exit "$code"
"""

_HELLO, _PROXY, _PROXY_ANSWER, _VERSION = 0x00000001, 0x1000000F, 0x8000000F, 4  # PROTOCOL.mux
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_OTHER_KEY = re.compile(r"HOST IDENTIFICATION HAS CHANGED|Host key verification failed", re.IGNORECASE)
_REFUSED = re.compile(r"Permission denied|Too many authentication failures|No more authentication methods")
_WAY = re.compile(r"Could not resolve hostname|Network is unreachable|Network is down")
_CAUSE = re.compile(rf"{_REFUSED.pattern}|{_WAY.pattern}|refused|timed out|No route to host|open failed")
_CONFIG = re.compile(r"[Bb]ad configuration option|bad configuration options|keyword .* argument|line \d+: ")


class Client:
    """An OpenSSH client that is connected to a board; a `Link` whose socket is that of its channels."""

    def __init__(self, address: SshAddress) -> None:
        """Start the client, and wait until it has logged in."""
        self._address = address
        self._left = contextlib.ExitStack()
        try:
            folder = self._left.enter_context(scratch_folder())
            self._log = folder / "log"
            self._start(folder / "c")
            self.socket = self._connected(folder / "c")
        except BaseException:
            self.close()
            raise

    def _start(self, control: Path) -> None:
        if len(str(control).encode()) > _MOST_PATH:
            raise ToolchainError(
                f"the path of the temporary folder {control.parent} is too long for a socket of ssh",
                "set TMPDIR to a folder with a shorter path, such as /tmp",
            )
        words = _words({**_OPTIONS, "ControlPath": str(control)})
        way = openssh_options(self._address, write_known_hosts(self._address))
        with self._log.open("wb") as log:
            # A session of its own, so that Ctrl-C reaches us alone and we end the client in order.
            self._shell = subprocess.Popen(
                ["sh", "-c", _TIED, "sh", _program(), "-N", *words, *way, "--", self._address.host],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._left.callback(self._end)

    def _connected(self, control: Path) -> socket.socket:
        deadline = time.monotonic() + _CONNECTED_S
        while not control.exists():
            if self._shell.poll() is not None:
                raise self._failure()
            if time.monotonic() > deadline:
                raise LostError(
                    f"{self._address.label}: the OpenSSH client is not logged in after {_CONNECTED_S:g} s",
                    f"try it by hand: `toolchain board shell {self._address.name or 'BOARD'}`",
                )
            time.sleep(_LOOK_S)
        ours = self._left.enter_context(socket.socket(socket.AF_UNIX))
        ours.settimeout(_ANSWER_S)
        try:
            ours.connect(str(control))
            _send(ours, _HELLO, _VERSION)
            hello = _receive(ours)
            _send(ours, _PROXY, 0)
            answer = _receive(ours)
        except OSError as error:
            raise self._failure() from error
        if hello[:2] != (_HELLO, _VERSION) or answer[0] != _PROXY_ANSWER:
            raise MissingError(
                f"{self._address.label}: the OpenSSH client shares no connections: it is older than 7.4",
                'install a newer one, or set `ssh = "paramiko"` in its entry of toolchain.toml',
            )
        return ours

    def close(self) -> None:
        """End the client, and remove its folder."""
        self._left.close()

    def complaint(self) -> str:
        """Return the last line of a client that has ended; empty if it runs or printed nothing."""
        try:
            self._shell.wait(_END_S)
        except subprocess.TimeoutExpired:
            return ""
        lines = self._lines()
        return lines[-1] if lines else ""

    def _end(self) -> None:
        assert self._shell.stdin is not None  # noqa: S101 - PIPE above
        self._shell.stdin.close()
        try:
            self._shell.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._shell.kill()
            self._shell.wait(_END_S)

    def _lines(self) -> list[str]:
        try:
            log = self._log.read_bytes().decode(errors="replace")
        except OSError:
            return []
        return [printable(line.strip()[:LONGEST]) for line in log.splitlines() if line.strip()]

    def _failure(self) -> ToolchainError:
        address = self._address
        lines = self._lines()
        text = "\n".join(lines)
        # A jump's client says the cause before ours says its consequence.
        causes = [line for line in lines if _CAUSE.search(line)] or lines[-1:]
        last = causes[0] if causes else f"it ended with code {self._shell.poll()}"
        if "no matching host key type" in text:
            return other_key(address, "no key of that type")
        if _OTHER_KEY.search(text):
            # A jump host's key is checked by the user's own lists.
            if fingerprints := _FINGERPRINT.findall(text):
                return other_key(address, fingerprints[0])
            return UsageError(f"{address.label}: {last}", "log in on its jump host once by `ssh`")
        if _REFUSED.search(text):
            return RefusedError(
                f"{address.label}: none of your keys is accepted: {last}",
                "`ssh-copy-id` puts your key there; `ssh -v` shows what is tried",
            )
        if _CONFIG.search(last):
            return UsageError(f"your ssh_config cannot be used: {last}", "edit it: `ssh -G HOST` tries it")
        kind = WayError if _WAY.search(text) else LostError
        return kind(
            f"{address.label}: the OpenSSH client cannot reach it: {last}", "is it switched on and connected?"
        )


def _words(options: Mapping[str, str]) -> list[str]:
    """Return options as the client's command line takes them."""
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _program() -> str:
    if client := shutil.which("ssh"):
        return client
    raise MissingError("no `ssh` on this machine: it reaches the boards", "apt-get install openssh-client")


def _send(ours: socket.socket, *words: int) -> None:
    packet = struct.pack(f">{len(words)}I", *words)
    ours.sendall(struct.pack(">I", len(packet)) + packet)


def _receive(ours: socket.socket) -> tuple[int, ...]:
    """Return the words of 4 bytes of the client's next answer."""
    size = int.from_bytes(_exactly(ours, 4), "big")
    packet = _exactly(ours, min(size, 1 << 12))
    return struct.unpack(f">{len(packet) // 4}I", packet[: len(packet) // 4 * 4])


def _exactly(ours: socket.socket, size: int) -> bytes:
    data = ours.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionResetError("the OpenSSH client has ended")
    return data


def connect_client(address: SshAddress, reason: str) -> SshConnection:
    """Connect and log in by the OpenSSH client; `reason` says why not by paramiko.

    Raises
    ------
    LostError
        The board cannot be reached or does not answer in time.
    UsageError
        The host key is not the pinned one, the login is rejected, or the user's ssh_config is wrong.
    MissingError
        There is no OpenSSH client.
    """
    client = Client(address)
    sock = WatchedSocket(client)
    wire = MuxWire(sock)
    wire.start_client(event=threading.Event())
    return SshConnection(address.label, "openssh", reason, client, sock, wire)


def ask_host_key_by_client(address: SshAddress) -> str:
    """Return the server's host key, without logging in.

    Raises
    ------
    ToolchainError
        The server cannot be reached, or has no key that could be pinned.
    """
    with scratch_folder() as folder:
        known = folder / "known"
        asking = {
            **_OPTIONS,
            "ControlMaster": "no",
            "StrictHostKeyChecking": "accept-new",
            "HostKeyAlgorithms": "-*-cert-v01@openssh.com",
            "HashKnownHosts": "no",
            "PubkeyAuthentication": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
        }
        # The rest as for a connection, less what makes it accept the pinned key alone.
        way = openssh_options(address, known)
        argv = [_program(), *_words(asking), *way, "--", address.host, "exit"]
        try:
            asked = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_CONNECTED_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LostError(f"{address.label}: no SSH server answered within {_CONNECTED_S:g} s") from error
        line = known.read_text(errors="replace").partition("\n")[0] if known.exists() else ""
        if line:
            return checked_host_key(line.partition(" ")[2])
        lines = [line for line in asked.stderr.decode(errors="replace").splitlines() if line.strip()]
        last = printable(lines[-1][:LONGEST]) if lines else f"ssh ended with code {asked.returncode}"
        raise LostError(f"{address.label}: {last}", "is that the port of its SSH server?")
