"""The seam to a board: commands, files, and processes that end with their channel."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, Protocol

from toolchain.errors import CheckError, ToolchainError, UsageError

MOST_REMOVED = 100
"""Entries that are removed at a time where others left them: the next command removes more."""

MOST_ENTRIES = 10_000
"""Of a folder's listing; ours have some tens."""

MOST_FILE = 2**30
"""Bytes of a file that is fetched, where the caller does not know how many it has."""


class DeadlineError(ToolchainError):
    """A command on a board did not end in time; it was killed."""


class LostError(ToolchainError):
    """A board cannot be reached, or went away while something was under way."""


@dataclass(frozen=True)
class Completed:
    """A command that ended by itself.

    Attributes
    ----------
    returncode
        Negative when a signal ended it: minus the signal's number.
    stdout, stderr
        The first `MOST_OUTPUT` bytes that it printed, and the last `MOST_ERRORS`.
    stdout_dropped, stderr_dropped
        How many bytes there were besides.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    stdout_dropped: int = 0
    stderr_dropped: int = 0

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended the command, such as SIGSEGV; None when none did."""
        if self.returncode >= 0:
            return None
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:  # a real-time signal
            return f"signal {-self.returncode}"


@dataclass(frozen=True)
class RemoteFile:
    """An entry of a folder on a board: bytes, and the time of its last change in seconds."""

    size: int
    changed: float


class Process(Protocol):
    """A command that runs until its channel is closed."""

    stdout: IO[bytes]

    def poll(self) -> int | None:
        """Return the return code as in `Completed`, None while the command runs."""

    def wait(self, timeout: float) -> int:
        """Return the return code; `DeadlineError` after `timeout` seconds."""

    def close(self) -> None:
        """End the command and all its children: end of input first, then by force."""


@dataclass(frozen=True)
class Home:
    """A way to a board that works before the board's folder is there, and that folder's path from it."""

    transport: Transport
    root: str


class Transport(Protocol):
    """A way to one board.

    Remote paths are relative to the board's folder, which is also every command's working folder;
    absolute ones and `..` are refused. `argv[0]` with a slash is a program in that folder, without
    one a program of the board's system. Every method raises a `ToolchainError` when the board or
    its folder cannot be reached.

    Attributes
    ----------
    kind
        What results say of it; nothing is decided by it.
    has_system
        Whether the board has a system of its own, with a shell: it can be asked how it is, and provisioned.
        Else each of its programs lies in its folder.
    is_remote
        Whether one logs in there: its loopback is reached through a tunnel alone, by `ssh_command`. Else it
        shares this host's.
    """

    kind: Literal["local", "ssh"]
    has_system: bool
    is_remote: bool

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:
        """Run a command to its end.

        The command and its children are killed after `timeout` seconds (`DeadlineError`) and when
        the caller is interrupted.
        """

    def spawn(self, argv: Sequence[str], log: Path | None = None) -> Process:
        """Start a command whose standard input stays open.

        Its standard error goes to the file `log` (here), up to `MOST_LOG` bytes of it.
        """

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:
        """Write a file, whole or not at all, so that it survives a power cut."""

    def get(self, remote: str, local: Path, most: int = MOST_FILE) -> None:
        """Fetch a file of at most `most` bytes to `local`, whole or not at all."""

    def listing(self, remote: str) -> dict[str, RemoteFile]:
        """Return a folder's entries by name, without temporary ones; empty if it is not there.

        Raises
        ------
        CheckError
            The board says what no folder can hold.
        """

    def touch(self, remote: str) -> None:
        """Make a file's time of last change now."""

    def remove(self, *remotes: str) -> None:
        """Remove files, and folders with all they hold, all by one command; none need be there."""

    def at_home(self) -> AbstractContextManager[Home]:
        """Yield a way to where a login begins, for what is done before the board's folder is there.

        On this host that is the board's folder itself.
        """

    def as_user(self, user: str) -> Transport:
        """Return the way to the folder of the same name that another account of the board has.

        Raises
        ------
        UsageError
            The board is not remote.
        """

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:
        """Return a command line of the OpenSSH client that logs in on the board.

        It accepts the pinned host key alone, and takes the way that the other methods take.

        Parameters
        ----------
        options
            More options of the client, such as what to forward.
        asks
            It may ask the user, for a passphrase say.

        Raises
        ------
        UsageError
            The board is not remote.
        MissingError
            No OpenSSH client is here.
        """

    def close(self) -> None:
        """Let go of the connection, if there is one; a later call opens another."""


def too_large(board: str, remote: str, most: int) -> CheckError:
    """Return the error for a file that has more bytes than are fetched."""
    return CheckError(
        f"{board}: {remote} has more than the {most} bytes that it may have; nothing was kept of it",
        f"look at it: `toolchain board exec BOARD -- ls -l {remote}`",
    )


def too_many(folder: str, entries: int) -> str:
    """Return what is wrong with a listing of so many entries, or more."""
    return f"{folder} has {entries} entries or more, where {MOST_ENTRIES} are read"


def checked_path(remote: str) -> PurePosixPath:
    """Return `remote` as a path below the board's folder.

    Raises
    ------
    UsageError
        It is absolute, empty, or leads out of the folder.
    """
    path = PurePosixPath(remote)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in remote:
        raise UsageError(
            f"{remote!r} is not a path inside the board's folder",
            "use a relative path without '..'",
        )
    return path
