"""The interface to a board: commands, files, and processes that end with their channel."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, Protocol

from toolchain.errors import CheckError, ToolchainError, UsageError

MOST_REMOVED = 100
"""Largest number of left-over entries that one call removes; the next call removes more."""

MOST_ENTRIES = 10_000
"""Largest number of entries in a folder's listing; our folders have tens."""

MOST_LINE = 1 << 16
"""Largest length in bytes of a line in a dialogue."""

SLOWEST_DISK = 1e6
"""Bytes per second that every board's disk reads and writes: the slowest SD cards."""

MOST_FILE = 2**30
"""Limit of a fetched file in bytes, if the caller does not know its size."""


class DeadlineError(ToolchainError):
    """A command on a board did not end in time; it was killed."""


class LostError(ToolchainError):
    """A board cannot be reached, or the connection to it was lost."""


class WayError(LostError):
    """The route to a board is broken at this host or a jump host; the board itself may work."""


@dataclass(frozen=True)
class Completed:
    """The result of a command that ended by itself.

    Attributes
    ----------
    returncode
        Its exit code; minus the signal's number if a signal ended it.
    stdout, stderr
        The first `MOST_OUTPUT` bytes of its standard output; the last `MOST_ERRORS` of its standard error.
    stdout_dropped, stderr_dropped
        Number of bytes of each that were not kept.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_dropped: int = 0
    stderr_dropped: int = 0

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended the command, such as SIGSEGV; None if it exited."""
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:  # a real-time signal
            return f"signal {-self.returncode}"


@dataclass(frozen=True)
class RemoteFile:
    """An entry of a folder on a board: its size in bytes and its modification time in seconds since 1970."""

    size: int
    changed: float


@dataclass(frozen=True)
class Reached:
    """How a board is reached over SSH: by paramiko or by the OpenSSH client, and why by the client."""

    way: Literal["paramiko", "openssh"]
    reason: str = ""


class Process(Protocol):
    """A command that runs until its channel is closed."""

    stdout: IO[bytes]

    def poll(self) -> int | None:
        """Return the return code as in `Completed`, None while the command runs."""

    def wait(self, timeout: float) -> int:
        """Wait for the command and return its code; raise `DeadlineError` after `timeout` seconds."""

    def close(self) -> None:
        """End the command and all its children: close its input first, then use force."""


class Dialogue(Protocol):
    """A command that this host talks to through its standard input and output.

    No watcher ends it. When its input ends, by `close` or because the link was lost, the command itself
    decides whether it stops or finishes what it does.
    """

    def send(self, data: bytes, patience: float) -> bool:
        """Send `data`; return False if the command no longer reads its input.

        Raises
        ------
        DeadlineError
            The command took nothing for `patience` seconds.
        LostError
            The connection was lost.
        """

    def read_line(self, timeout: float) -> bytes:
        """Return the next line of its output, at most `MOST_LINE` bytes; empty at the end of the output.

        Raises
        ------
        DeadlineError
            No line came within `timeout` seconds.
        LostError
            The connection was lost.
        """

    def wait(self, timeout: float) -> int:
        """Wait for the command to end, and return its code as in `Completed`; errors as of `read_line`."""

    def errors(self) -> bytes:
        """Return the last `MOST_ERRORS` bytes of its standard error."""

    def close(self) -> None:
        """End its input and forget the command, which may go on."""


@dataclass(frozen=True)
class Home:
    """A transport that works before the board's folder exists, and the path of that folder from there."""

    transport: Transport
    root: str


class Transport(Protocol):
    """The interface to one board.

    Remote paths are relative to the board's folder, which is also the working folder of every command;
    absolute paths and `..` are refused. If `argv[0]` has a slash, it is a program in that folder, else a
    program of the board's system. Every method raises a `ToolchainError` if the board or its folder cannot
    be reached.

    Attributes
    ----------
    kind
        Kind of connection, for reports only.
    has_system
        Whether the board has a system of its own, with a shell, that can report its state and be
        provisioned. If not, the only programs are those in its folder.
    is_remote
        Whether the board is reached by a login; its loopback interface then needs a tunnel made with
        `ssh_command`. If not, the board shares this host's loopback interface.
    """

    kind: Literal["local", "ssh"]
    has_system: bool
    is_remote: bool

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:
        """Run a command to its end.

        If it runs longer than `timeout` seconds, or the caller is interrupted, the command and its
        children are killed; a timeout raises `DeadlineError`.
        """

    def spawn(self, argv: Sequence[str], log: Path | None = None) -> Process:
        """Start a command whose standard input stays open.

        Its standard error is appended to the file `log` on this host, up to `MOST_LOG` bytes.
        """

    def talk(self, argv: Sequence[str]) -> Dialogue:
        """Start a command to talk to; the caller closes it."""

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:
        """Write a file atomically, so that it also survives a power cut."""

    def get(self, remote: str, local: Path, most: int = MOST_FILE) -> None:
        """Fetch a file of at most `most` bytes to `local`, atomically."""

    def listing(self, remote: str) -> dict[str, RemoteFile]:
        """Return a folder's entries by name, without hidden ones; empty if the folder does not exist.

        Raises
        ------
        CheckError
            The listing cannot be that of a folder of ours.
        """

    def touch(self, remote: str) -> None:
        """Set a file's modification time to now."""

    def remove(self, *remotes: str) -> None:
        """Remove files, and folders with their content, in one command; a missing one is no error."""

    def at_home(self) -> AbstractContextManager[Home]:
        """Yield a transport to the login's home, for steps before the board's folder exists.

        On this host it is a transport to the board's folder itself.
        """

    def as_user(self, user: str) -> Transport:
        """Return a transport to the folder of the same name of another account on the board.

        Raises
        ------
        UsageError
            The board is not remote.
        """

    def reached(self) -> Reached | None:
        """Return how the board was reached last, or would be; None without a login. Nothing is connected."""

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:
        """Return an OpenSSH command line that logs in on the board.

        It accepts only the pinned host key, and takes the same route as the other methods.

        Parameters
        ----------
        options
            More options of the client, for instance a port to forward.
        asks
            Whether the client may ask the user, for instance for a passphrase.

        Raises
        ------
        UsageError
            The board is not remote.
        MissingError
            No OpenSSH client is installed.
        """

    def close(self) -> None:
        """Close the connection, if there is one; a later call opens another."""


def too_large(board: str, remote: str, most: int) -> CheckError:
    """Return the error for a file that has more bytes than `most`."""
    return CheckError(
        f"{board}: {remote} has more than the allowed {most} bytes; nothing of it was stored",
        f"look at it: `toolchain board exec BOARD -- ls -l {remote}`",
    )


def too_many(folder: str, entries: int) -> str:
    """Return the problem of a listing with at least that many entries."""
    return f"{folder} has {entries} entries or more; at most {MOST_ENTRIES} are read"


def checked_path(remote: str) -> PurePosixPath:
    """Return `remote` as a path below the board's folder.

    Raises
    ------
    UsageError
        The path is absolute, empty, or leads out of the folder.
    """
    path = PurePosixPath(remote)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in remote:
        raise UsageError(
            f"{remote!r} is not a path inside the board's folder",
            "use a relative path without '..'",
        )
    return path
