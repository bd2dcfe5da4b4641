"""This host as a board: commands run in a folder, optionally under a user-mode emulator."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Literal

from toolchain.boards.local.process import LocalProcess, end_group, forbid_core_dumps
from toolchain.boards.output.kept import MOST_ERRORS, Kept, exchange
from toolchain.boards.transport import (
    MOST_ENTRIES,
    MOST_FILE,
    MOST_LINE,
    Completed,
    DeadlineError,
    Home,
    RemoteFile,
    Transport,
    checked_path,
    too_large,
    too_many,
)
from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.processes.interrupts import uninterrupted

# A dialogue with a child process of this host.

_DIALOGUE_CHUNK = 1 << 16
_JOIN_S = 2.0
_END_S = 2.0  # after its input ended, until `close` leaves it to itself


class LocalDialogue:
    """A `Dialogue` through the pipes of a child, whose input does not block."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin and child.stdout and child.stderr  # noqa: S101 - it was started with pipes
        self._child, self._input, self._output, self._stderr = child, child.stdin, child.stdout, child.stderr
        forbid_core_dumps(child)
        os.set_blocking(self._input.fileno(), False)
        self._read = b""
        self._errors = Kept(MOST_ERRORS, last=True)
        self._drain = threading.Thread(target=self._read_errors, name="stderr of a board", daemon=True)
        self._drain.start()

    def send(self, data: bytes, patience: float) -> bool:
        """Send `data`; see `Dialogue.send`."""
        pending = memoryview(data)
        while pending:
            if not _ready(self._input, select.POLLOUT, patience):
                raise self._late(patience)
            try:
                pending = pending[os.write(self._input.fileno(), pending) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def read_line(self, timeout: float) -> bytes:
        """Return the next line of the output; see `Dialogue.read_line`."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._read and len(self._read) < MOST_LINE:
            left = max(0.0, deadline - time.monotonic())
            if not _ready(self._output, select.POLLIN, left):
                raise self._late(timeout)
            data = os.read(self._output.fileno(), _DIALOGUE_CHUNK)
            if not data:
                break
            self._read += data
        size = min(self._read.find(b"\n") + 1 or len(self._read), MOST_LINE)
        line, self._read = self._read[:size], self._read[size:]
        return line

    def wait(self, timeout: float) -> int:
        """Wait for the command to end; see `Dialogue.wait`."""
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise self._late(timeout) from error

    def errors(self) -> bytes:
        """Return the end of its standard error."""
        self._drain.join(_JOIN_S)
        return self._errors.content()

    def close(self) -> None:
        """Close the pipes, and leave a command that goes on to itself."""
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_END_S)

    def _late(self, seconds: float) -> DeadlineError:
        return DeadlineError(f"process {self._child.pid}: no progress within {seconds:g} s")

    def _read_errors(self) -> None:
        with self._stderr:
            while data := os.read(self._stderr.fileno(), _DIALOGUE_CHUNK):
                self._errors.take(data)


def _ready(pipe: IO[bytes], event: int, seconds: float) -> bool:
    """Wait until a pipe is ready, or its other end is closed; return False on timeout."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(seconds * 1000))


_CHUNK = 1 << 20
_BUSY_S = 5.0  # for a program that is busy
_BUSY_TICK_S = 0.02
_LIBRARIES = "LD_LIBRARY_PATH"
_DRIVERS = ("EDGE_CUDA_", "EDGE_NVML")  # variables of edge-rt about a driver


class LocalTransport:
    """A `Transport` to the folder `root` of this host.

    Parameters
    ----------
    root
        The board's folder; must exist. Commands run in it.
    emulator
        Command put before every command, e.g. ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu").
        Such a board has no system programs; it runs only programs in `root`.
    environment
        Environment variables of every command, in addition to its own.
    """

    kind: Literal["local", "ssh"] = "local"
    is_remote = False

    def __init__(
        self,
        root: Path,
        emulator: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.root = root
        self._more = dict(environment)
        self.emulator = tuple(emulator)
        self.has_system = not emulator

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:
        """Run a command to its end; see `Transport.run`."""
        child: subprocess.Popen[bytes] | None = None
        try:
            with uninterrupted():
                child = self._start(argv)
            forbid_core_dumps(child)
            output, errors = exchange(child, input or b"", timeout)
        except subprocess.TimeoutExpired as error:
            raise DeadlineError(f"{argv[0]} did not end within {timeout:g} s and was killed") from error
        finally:
            if child is not None:
                end_group(child)
        return Completed(
            tuple(argv),
            child.returncode,
            output.content(),
            errors.content(),
            output.dropped,
            errors.dropped,
        )

    def spawn(self, argv: Sequence[str], log: Path | None = None) -> LocalProcess:
        """Start a command whose standard input stays open; see `Transport.spawn`."""
        try:
            return LocalProcess(
                self._command(argv),
                self.root,
                {**self._libraries(), **self._environment(), **self._more},
                log,
            )
        except OSError as error:
            raise self._not_started(argv, error) from error

    def talk(self, argv: Sequence[str]) -> LocalDialogue:
        """Start a command to talk to; see `Transport.talk`."""
        with uninterrupted():
            return LocalDialogue(self._start(argv))

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:
        """Write a file atomically; see `Transport.put`."""
        target = self._path(remote)
        self._check_root()
        with atomic.replacing(target, 0o777 if executable else 0o666) as temporary:
            if isinstance(local, bytes):
                temporary.write_bytes(local)
            else:
                shutil.copyfile(_readable(local), temporary)

    def get(self, remote: str, local: Path, most: int = MOST_FILE) -> None:
        """Fetch a file; see `Transport.get`."""
        source = self._path(remote)
        self._check_root()
        if not source.is_file():
            raise ToolchainError(f"the board has no file {remote!r} (in {self.root})")
        with atomic.replacing(local) as temporary, temporary.open("wb") as file, _open(source) as content:
            left = most + 1  # the file may grow while it is read
            while data := _read(content, min(left, _CHUNK)):
                left -= len(data)
                if not left:
                    raise too_large(str(self.root), remote, most)
                file.write(data)

    def listing(self, remote: str) -> dict[str, RemoteFile]:
        """Return a folder's entries; see `Transport.listing`."""
        folder = self._path(remote)
        self._check_root()
        files: dict[str, RemoteFile] = {}
        if folder.is_dir():
            for entry in os.scandir(folder):
                if len(files) > MOST_ENTRIES:
                    raise CheckError(
                        f"this cannot be right: {too_many(str(folder), len(files))}",
                        f"look at it, and empty it: ls {folder}",
                    )
                if not entry.name.startswith("."):
                    with suppress(FileNotFoundError):  # removed meanwhile
                        status = entry.stat(follow_symlinks=False)
                        files[entry.name] = RemoteFile(status.st_size, status.st_mtime)
        return files

    def touch(self, remote: str) -> None:
        """Set a file's modification time to now."""
        try:
            os.utime(self._path(remote))
        except OSError as error:
            raise ToolchainError(f"{self.root / remote}: {error.strerror}") from error

    def remove(self, *remotes: str) -> None:
        """Remove files or folders; a missing one is no error."""
        for remote in remotes:
            self._remove(self._path(remote))

    def _remove(self, path: Path) -> None:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass  # another process removed it at the same time
        except OSError as error:
            raise ToolchainError(f"cannot remove {path}: {error.strerror}") from error

    @contextmanager
    def at_home(self) -> Iterator[Home]:
        """Yield this transport; see `Transport.at_home`."""
        yield Home(self, ".")

    def as_user(self, user: str) -> Transport:
        """Raise UsageError: the board has no login."""
        raise self._no_login(f"account {user}")

    def reached(self) -> None:
        """Return None: the board has no login."""

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:  # noqa: ARG002
        """Raise UsageError: the board has no login."""
        raise self._no_login("ssh")

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _no_login(self, what: str) -> UsageError:
        return UsageError(
            f"{what}: the board is the folder {self.root} of this host, without a login",
            "`toolchain board exec BOARD -- COMMAND` runs a command there",
        )

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        deadline = time.monotonic() + _BUSY_S
        while True:
            try:
                return subprocess.Popen(
                    self._command(argv),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self.root,
                    env={**self._libraries(), **self._environment(), **self._more},
                    start_new_session=True,
                )
            except OSError as error:
                # A child that another thread started while the program was written may hold it open for an
                # instant, until its own `exec`.
                if error.errno != errno.ETXTBSY or time.monotonic() > deadline:
                    raise self._not_started(argv, error) from error
                time.sleep(_BUSY_TICK_S)

    def _path(self, remote: str) -> Path:
        return self.root / checked_path(remote)

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise ToolchainError(f"the board's folder {self.root} is gone", "start the board anew")

    def _command(self, argv: Sequence[str]) -> list[str]:
        program = argv[0]
        if "/" in program:
            program = str(self._path(program))
        elif self.emulator:
            raise UsageError(f"an emulated process board has no program {program!r}")
        return [*self.emulator, program, *argv[1:]]

    @staticmethod
    def _environment() -> dict[str, str]:
        # As on a remote board: none of the caller's LD_PRELOAD, OMP_… or QEMU_… variables. What is passed
        # names the driver that edge-rt is to open.
        drivers = {name: value for name, value in os.environ.items() if name.startswith(_DRIVERS)}
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **drivers}

    def _libraries(self) -> dict[str, str]:
        """Return where drivers lie, as `doctor` and `build` find them; an emulated program has others."""
        if self.emulator or _LIBRARIES not in os.environ:
            return {}
        return {_LIBRARIES: os.environ[_LIBRARIES]}

    def _not_started(self, argv: Sequence[str], error: OSError) -> ToolchainError:
        self._check_root()
        if self.emulator and shutil.which(self.emulator[0]) is None:
            return MissingError(
                f"cannot start {argv[0]}: the emulator {self.emulator[0]!r} is not there",
                "install it (`toolchain doctor` says how)",
            )
        reason = "no such program" if error.errno == errno.ENOENT else error.strerror
        return ToolchainError(f"cannot start {argv[0]} in {self.root}: {reason}")


def _open(source: Path) -> IO[bytes]:
    try:
        return source.open("rb")
    except OSError as error:
        raise ToolchainError(f"cannot read {source}: {error.strerror}") from error


def _read(content: IO[bytes], most: int) -> bytes:
    try:
        return content.read(most)
    except OSError as error:  # a failure to read must not be reported as a failure to write
        raise ToolchainError(f"cannot read {content.name}: {error.strerror}") from error


def _readable(local: Path) -> Path:
    if not local.is_file():
        raise UsageError(f"{local}: no such file")
    return local
