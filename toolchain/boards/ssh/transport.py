"""A board that is reached over SSH."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast

from toolchain.answers import lie, shown
from toolchain.boards.output.kept import MOST_OUTPUT, Kept
from toolchain.boards.ssh import scripts
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.hostkeys import write_known_hosts
from toolchain.boards.transport import (
    MOST_ENTRIES,
    MOST_FILE,
    SLOWEST_DISK,
    Completed,
    DeadlineError,
    Dialogue,
    Home,
    LostError,
    Process,
    Reached,
    RemoteFile,
    checked_path,
    too_large,
    too_many,
)
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files import atomic

if TYPE_CHECKING:
    from toolchain.boards.ssh.channel import Channel
    from toolchain.boards.ssh.connection import SshConnection
    from toolchain.boards.ssh.remote import Script


# Parses the listing of a folder on a board, as `scripts.LISTING` prints it.

MOST_LISTING = 4 * 2**20
"""Limit of a listing in bytes: enough for tens of thousands of entries; our folders have tens."""

_ENTRY = re.compile(r"([0-9]{1,19}) (-?[0-9]{1,19}) ([^/]+)")


def parse_listing(text: bytes, board: str, folder: str) -> dict[str, RemoteFile]:
    """Return a folder's entries by name.

    Lines of another form are ignored: they belong to names with a line break.

    Raises
    ------
    CheckError
        The listing has more bytes or entries than any folder of ours, or a name is `.` or `..`.
    """
    what = f"the listing of its folder {folder}"
    if len(text) > MOST_LISTING:
        raise lie(board, what, f"it has more than {MOST_LISTING} bytes", of_system=True)
    files = {}
    for line in text.decode(errors="replace").splitlines():
        if match := _ENTRY.fullmatch(line):
            if match[3] in (".", ".."):
                raise lie(board, what, f"{shown(match[3])} is no entry", of_system=True)
            files[match[3]] = RemoteFile(int(match[1]), float(match[2]))
            if len(files) > MOST_ENTRIES:
                raise lie(board, what, too_many("it", len(files)), of_system=True)
    return files


_STEP_S = 60.0  # for operations that are immediate unless the board's disk hangs
_PATIENCE_S = 30.0  # between two chunks of a transfer
_SYNC_S = 60.0
_SLOWEST_LINK = 2e3  # bytes per second to receive: a modem; a slower board is not worth waiting for
_FEED_S = 1e6  # a command reads its input when it likes, within its own limit
_MOST_CONNECTIONS = 8
_CHUNK = 1 << 18
_KILL_S = 5.0
_WATCHER_S = 1.0


class SshTransport:
    """A `Transport` to the folder `root` of a board.

    The first call connects, and so does the next call after the connection was lost. An operation that was
    interrupted by the loss has failed and is not retried.

    Parameters
    ----------
    root
        The board's folder, relative to the login's home or absolute; it must exist on the board.
    connection
        An open connection to the board, which the transport uses and closes; None: the first call connects.
    """

    kind: Literal["local", "ssh"] = "ssh"
    has_system = True
    is_remote = True

    def __init__(self, address: SshAddress, root: str, connection: SshConnection | None = None) -> None:
        self.address = address
        self.root = root
        self._connections: list[SshConnection] = [connection] if connection else []
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connection, if there is one; a later call opens another."""
        with self._lock:
            while self._connections:
                self._connections.pop().close()

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:
        """Run a command to its end; see `Transport.run`."""
        deadline = time.monotonic() + timeout
        with self._command(argv, 0, input or b"") as script:
            try:
                script.limit(deadline - time.monotonic())
                output = Kept(MOST_OUTPUT)
                while data := script.stdout.read(_CHUNK):
                    output.take(data)
                code = script.wait(max(0.0, deadline - time.monotonic()))
                if code is None:
                    raise TimeoutError
            except TimeoutError as error:
                self._kill(script)
                raise DeadlineError(f"{argv[0]} did not end within {timeout:g} s and was killed") from error
            except BaseException:
                with contextlib.suppress(ToolchainError):
                    self._kill(script)
                raise
            errors = script.errors()
            return Completed(
                tuple(argv), code, output.content(), errors, output.dropped, script.errors_dropped
            )

    def spawn(self, argv: Sequence[str], log: Path | None = None) -> Process:
        """Start a command whose standard input stays open; see `Transport.spawn`."""
        return SshProcess(self, self._command(argv, SshProcess.GRACE_TENTHS, b"", log))

    def talk(self, argv: Sequence[str]) -> Dialogue:
        """Start a command to talk to; see `Transport.talk`."""
        from toolchain.boards.ssh.remote import SshDialogue

        return SshDialogue(self._started(scripts.TALK, (), argv))

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:
        """Write a file atomically; see `Transport.put`."""
        path = str(checked_path(remote))
        with (
            _open(local) as (content, size),
            self._script(scripts.PUT, path, str(size), "+x" if executable else "") as script,
        ):
            cut: BaseException | None = None
            try:
                script.send(content.read, _CHUNK, _PATIENCE_S)
            except (OSError, EOFError) as error:
                cut = error  # the script or the connection ended; the script's error says why
            try:
                code = script.wait(_KILL_S if cut else _SYNC_S + size / SLOWEST_DISK)
            except LostError as error:
                raise LostError(f"{error.message}; {remote} was not replaced", error.hint) from error
            if code is None or (cut and code == 0):
                raise script.failure(cut or TimeoutError())
            if code:
                raise ToolchainError(
                    f"{self.address.label}: cannot write {remote}: {script.last_words()}; "
                    "nothing was left half-written",
                    "`toolchain board status` shows the board's free space",
                )

    def get(self, remote: str, local: Path, most: int = MOST_FILE) -> None:
        """Fetch a file; see `Transport.get`."""
        path = str(checked_path(remote))
        deadline = time.monotonic() + _STEP_S + most / _SLOWEST_LINK
        with self._script(scripts.GET, path) as script:
            if script.answer == "missing":
                raise ToolchainError(f"{self.address.label} has no file {remote!r} (in {self.root})")
            left = most
            with atomic.replacing(local) as temporary, temporary.open("wb") as file:
                while data := self._next(script, deadline):
                    left -= len(data)
                    if left < 0:
                        raise too_large(self.address.label, remote, most)
                    file.write(data)
                self._done(script, f"cannot read {remote}")

    def listing(self, remote: str) -> dict[str, RemoteFile]:
        """Return a folder's entries; see `Transport.listing`."""
        text = self._small(scripts.LISTING, (remote,), "cannot list")
        return parse_listing(text, self.address.name or self.address.host, remote)

    def touch(self, remote: str) -> None:
        """Set a file's modification time to now."""
        self._small(scripts.TOUCH, (remote,), "cannot touch")

    def remove(self, *remotes: str) -> None:
        """Remove files or folders; a missing one is no error."""
        if remotes:
            self._small(scripts.REMOVE, remotes, "cannot remove")

    @contextmanager
    def at_home(self) -> Iterator[Home]:
        """Yield a separate connection to the login's home; see `Transport.at_home`."""
        with contextlib.closing(SshTransport(self.address, ".")) as home:
            yield Home(home, self.root)

    def as_user(self, user: str) -> SshTransport:
        """Return a transport to another account's folder of the same name."""
        return SshTransport(replace(self.address, user=user), self.root)

    def reached(self) -> Reached:
        """Return how the board is reached; see `Transport.reached`."""
        from toolchain.boards.ssh.ways import client_reason

        reason = client_reason(self.address)
        return Reached("openssh", reason) if reason else Reached("paramiko")

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:
        """Return the OpenSSH client's command line; see `Transport.ssh_command`."""
        from toolchain.boards.ssh.route import openssh_options

        client = shutil.which("ssh")
        if client is None:
            raise MissingError(
                "no `ssh` on this machine: it reaches the boards", "apt-get install openssh-client"
            )
        way = openssh_options(self.address, write_known_hosts(self.address), asks=asks)
        return [client, *options, *way, "--", self.address.host]

    def _small(self, script: str, remotes: Sequence[str], what: str) -> bytes:
        with self._script(script, *(str(checked_path(remote)) for remote in remotes)) as running:
            running.limit(_STEP_S)
            try:
                output = running.stdout.read(MOST_LISTING + 1)
            except TimeoutError as error:
                raise running.failure(error) from error
            if len(output) <= MOST_LISTING:  # a longer one is refused, whatever the script's result
                self._done(running, f"{what} {remotes[0]}")
            return output

    def _next(self, script: Script, deadline: float) -> bytes:
        script.limit(min(_PATIENCE_S, deadline - time.monotonic()))
        try:
            return cast(io.BufferedReader, script.stdout).read1(
                _CHUNK
            )  # what has come: a slow link fills no chunk
        except TimeoutError as error:
            raise script.failure(error) from error

    def _done(self, script: Script, what: str) -> None:
        code = script.wait(_STEP_S)
        if code is None:
            raise script.failure(TimeoutError())
        if code:
            raise ToolchainError(f"{self.address.label}: {what}: {script.last_words()}")

    def _command(self, argv: Sequence[str], grace: int, input: bytes, log: Path | None = None) -> Script:
        script = self._started(scripts.RUN, (str(grace), str(len(input))), argv, log)
        if input:
            threading.Thread(target=self._feed, args=(script, input), daemon=True).start()
        return script

    def _started(
        self, script: str, options: Sequence[str], argv: Sequence[str], log: Path | None = None
    ) -> Script:
        program = argv[0]
        if "/" in program:
            program = str(checked_path(program))
            program = program if "/" in program else f"./{program}"
        running = self._script(script, *options, program, *argv[1:], log=log)
        problem = {"missing": "no such program", "denied": "Permission denied", "pipe": "no temporary folder"}
        if running.answer in problem:
            running.close()
            raise ToolchainError(
                f"{self.address.label}: cannot start {argv[0]} in {self.root}: {problem[running.answer]}",
                "its input needs a folder that the login can write: /tmp, or "
                f"{'its home' if self.root == '.' else self.root}"
                if running.answer == "pipe"
                else "",
            )
        return running

    @staticmethod
    def _feed(script: Script, input: bytes) -> None:
        # A command that ends without reading all of its input has not failed.
        with contextlib.suppress(OSError, EOFError):
            script.channel.send(input, _FEED_S)

    def _script(self, script: str, *arguments: str, log: Path | None = None) -> Script:
        from toolchain.boards.ssh.remote import Script

        if any("\0" in word for word in arguments):
            raise UsageError("a command's words cannot hold a null character")
        running = Script(self._channel(), script, self.root, *arguments, log=log)
        if running.answer == "folder":
            running.close()
            raise ToolchainError(
                f"{self.address.label}: its folder {self.root} is gone or was never made",
                f"`toolchain board provision {self.address.name}`",
            )
        return running

    def _kill(self, script: Script) -> None:
        """Kill a command and its children: close its input for the watcher; if that fails, kill the group."""
        script.channel.end_input()
        if script.wait(_WATCHER_S) is None and script.pid:
            kill = f"kill -KILL -{script.pid} 2>/dev/null || kill -KILL {script.pid}"
            with self._command(["sh", "-c", kill], 0, b"") as killing:
                killing.wait(_KILL_S)
            script.wait(_KILL_S)

    def _channel(self) -> Channel:
        """Open a channel; in another connection if the server opens no more in those there are.

        A server that allows one session counts it for a moment after it has ended.
        """
        from toolchain.boards.ssh.connection import NoSessionError
        from toolchain.boards.ssh.ways import connect

        refused: list[SshConnection] = []
        while True:
            opened: SshConnection | None = None
            with self._lock:
                for ended in [other for other in self._connections if not other.alive]:
                    ended.close()
                    self._connections.remove(ended)
                others = [other for other in self._connections if other not in refused]
                if not others:
                    opened = self._another(connect)
                    others = [opened]
            for connection in others:
                try:
                    return connection.open()
                except NoSessionError:
                    if connection is opened:
                        raise
                    refused.append(connection)

    def _another(self, connect: Callable[[SshAddress], SshConnection]) -> SshConnection:
        if len(self._connections) >= _MOST_CONNECTIONS:
            raise ToolchainError(
                f"{self.address.label}: its server allows too few sessions for all that runs there",
                "set `MaxSessions 10` in its sshd_config",
            )
        self._connections.append(connect(self.address))
        return self._connections[-1]


class SshProcess:
    """A command on a board whose standard input stays open until `close`."""

    GRACE_TENTHS = 20  # to exit after its input was closed, and again after SIGTERM
    _CLOSE_S = 2 * GRACE_TENTHS / 10 + _KILL_S

    def __init__(self, transport: SshTransport, script: Script) -> None:
        self._transport = transport
        self._script = script
        self.stdout: IO[bytes] = script.stdout
        self.pid = script.pid  # on the board

    def poll(self) -> int | None:
        """Return the return code, None while the command runs."""
        return self._script.code()

    def wait(self, timeout: float) -> int:
        """Wait for the command and return its code.

        Raises
        ------
        DeadlineError
            It did not end within `timeout` seconds.
        """
        code = self._script.wait(timeout)
        if code is None:
            raise DeadlineError(f"process {self.pid} of the board did not end within {timeout:g} s")
        return code

    def close(self) -> None:
        """End the command: close its input, then SIGTERM, then SIGKILL; then kill the rest of its group."""
        self._script.channel.end_input()
        try:
            with contextlib.suppress(LostError):  # its watcher on the board ends it anyway
                if self._script.wait(self._CLOSE_S) is None:
                    self._transport._kill(self._script)
                self._script.settle()
        finally:
            self._script.close()


@contextmanager
def _open(local: Path | bytes) -> Iterator[tuple[IO[bytes], int]]:
    if isinstance(local, bytes):
        yield io.BytesIO(local), len(local)
        return
    if not local.is_file():
        raise UsageError(f"{local}: no such file")
    with local.open("rb") as file:
        yield file, local.stat().st_size
