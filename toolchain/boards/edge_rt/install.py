"""Installs `edge-rt` on a board and asks it about the board."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolchain.answers import understood
from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.answers import EdgeRtInfo, check_output
from toolchain.boards.transport import MOST_REMOVED, Completed, DeadlineError, RemoteFile, Transport
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line
from toolchain.linking.linker import version_key
from toolchain.runtime import Runtime, arch_of, ensure_runtime

# Uploads files named by their content, each once, and removes the least recently used ones.

KEEP_PROGRAMS = 3  # versions of edge-rt on a board, so that two checkouts used in turn keep theirs


def stock(
    transport: Transport, remote: str, content: Path | bytes, *, keep: int, executable: bool = False
) -> str:
    """Upload `content` to `remote`, a path named by its content, unless it is there; return the path.

    A file of that name and size is not checked further, because `put` never leaves a partial file. The
    `keep` most recently used files of the folder stay; others are removed, a limited number in each call.
    """
    size = len(content) if isinstance(content, bytes) else content.stat().st_size
    folder, name = str(PurePosixPath(remote).parent), PurePosixPath(remote).name
    files = transport.listing(folder)
    # First: on a small disk there is no room for one version more than are kept.
    transport.remove(*(f"{folder}/{old}" for old in surplus(files, name, keep)))
    if name in files and files[name].size == size:
        transport.touch(remote)
    else:
        transport.put(content, remote, executable=executable)
    return remote


def surplus(files: dict[str, RemoteFile], name: str, keep: int) -> list[str]:
    """Return the names to remove so that `name` and the `keep - 1` other most recently used files stay.

    Their number is limited: a board that reports very many files must not keep the host busy.
    """
    others = sorted((n for n in files if n != name), key=lambda n: files[n].changed, reverse=True)
    return others[keep - 1 :][-MOST_REMOVED:]


# Says who measures, for those that wait for a board.

_LONGEST = 64  # characters that edge-rt takes
_FOREIGN = re.compile(r"[^A-Za-z0-9._@-]+")


def user_at_host() -> str:
    """Return this user and this host as one word of at most 64 plain letters: `anna@desk`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user: in a container
        user = f"user-{os.getuid()}"
    return _FOREIGN.sub("-", f"{user}@{socket.gethostname()}")[:_LONGEST]


_STATE_FOLDER = "state"
_MEASURING = frozenset({"run", "bench", "measure", "probe", "serve"})  # verbs that wait for the lock
_INFO_SECONDS = 60.0  # it takes 0.2 s under qemu; the rest is margin for a busy host
_DRIVER_SECONDS = 20.0  # for each driver; PoCL takes 0.2 s on a PC, and 10 s under qemu


@dataclass(frozen=True)
class Installed:
    """`edge-rt` on a board: its path, its answer to `edge-rt info`, and the one device that it may use."""

    program: str
    facts: EdgeRtInfo
    only_device: str = ""

    def command(self, verb: str, *arguments: str) -> list[str]:
        """Return the command line of a verb; all verbs use one state folder, and therefore one lock."""
        whom = ("--for", user_at_host()) if verb in _MEASURING else ()
        return command(self.program, verb, *arguments, *whom, only_device=self.only_device)


def command(program: str, verb: str, *arguments: str, only_device: str = "") -> list[str]:
    """Return the command line of a verb of the `edge-rt` at path `program` on a board.

    Parameters
    ----------
    only_device
        `Board.only_device`. Boards that have one device of a machine each have a lock each: they measure at
        the same time.
    """
    only = ["--only-device", only_device] if only_device else []
    return [program, verb, *arguments, *only, "--state", state_folder(only_device)]


def state_folder(only_device: str) -> str:
    """Return the name of the folder on a board in which edge-rt keeps its lock and other state."""
    return f"{_STATE_FOLDER}-{only_device.replace(':', '-')}" if only_device else _STATE_FOLDER


def install(
    board: Board, progress: Callable[[str], None] | None = None, *, drivers: bool = False
) -> Installed:
    """Upload this version's `edge-rt` unless the board has it, and check that it works there.

    Parameters
    ----------
    progress
        Called with a message when `edge-rt` has to be compiled, which takes minutes the first time.
    drivers
        Ask the drivers for their devices too. A driver that crashes or does not answer becomes the
        `problem` of its kind of device; the other kinds are not affected.

    Raises
    ------
    ToolchainError
        edge-rt does not start, or the board does not match its class: another machine, or a glibc that
        is too old.
    """
    runtime = ensure_runtime(arch_of(board.profile), progress=progress)
    with named(board):
        remote = stock(
            board.transport,
            program_path(runtime),
            runtime.program,
            keep=KEEP_PROGRAMS,
            executable=True,
        )
    return ask_program(board, remote, runtime.fingerprint, drivers=drivers)


def is_provisioned(board: Board) -> bool:
    """Return whether an `edge-rt` of any version is installed on a board; False if it cannot be reached."""
    try:
        return any(name.startswith("edge-rt-") for name in board.transport.listing("bin"))
    except ToolchainError:
        return False


def program_path(runtime: Runtime) -> str:
    """Return the path of that `edge-rt` on a board, relative to the installation's folder."""
    return f"bin/edge-rt-{runtime.fingerprint[:12]}"


def ask_program(board: Board, program: str, fingerprint: str, *, drivers: bool = False) -> Installed:
    """Ask the `edge-rt` at path `program` about itself and the board, and the drivers if `drivers`.

    Raises
    ------
    ToolchainError
        edge-rt does not start, has another fingerprint, or the board does not match its class.
    CheckError
        An answer cannot be right.
    """
    options = ["--devices", "--timeout", f"{_DRIVER_SECONDS:g}"] if drivers else []
    try:
        with named(board):
            completed = board.transport.run(
                command(program, "info", *options, only_device=board.only_device), timeout=_INFO_SECONDS
            )
    except DeadlineError as error:
        raise ToolchainError(
            f"board {board.name}: `edge-rt info` did not end within {_INFO_SECONDS:g} s and was killed",
            f"see what is running there: `toolchain board status {board.name}`",
        ) from error
    facts = _facts(board, completed)
    _check(board, facts, fingerprint)
    return Installed(program, facts, board.only_device)


def _facts(board: Board, completed: Completed) -> EdgeRtInfo:
    if completed.returncode == 0 and completed.stdout.strip():
        what = "the answer of `edge-rt info`"
        return understood(EdgeRtInfo, check_output(completed, board.name, what), board.name, what)
    reason = last_line(completed.stderr if completed.stderr.strip() else completed.stdout)
    ended = completed.signal_name or f"exit code {completed.returncode}"
    raise ToolchainError(
        f"board {board.name}: edge-rt does not work there ({ended}): {reason}",
        f"is it a board of class {board.profile.name}? `toolchain board show {board.name}`",
    )


def _check(board: Board, facts: EdgeRtInfo, fingerprint: str) -> None:
    profile = board.profile
    if facts.machine not in profile.architecture.runs_on:
        raise ToolchainError(
            f"board {board.name} is a {facts.machine} machine, its class {profile.name} is {profile.arch}",
            "give the board another class",
        )
    if profile.glibc and version_key(facts.glibc) < version_key(profile.glibc):
        raise ToolchainError(
            f"board {board.name} has glibc {facts.glibc}, its class {profile.name} says {profile.glibc}",
            f"lower `glibc` in the board.toml of {profile.name}",
        )
    if facts.fingerprint != fingerprint:
        raise ToolchainError(
            f"board {board.name}: edge-rt there says it is {facts.fingerprint!r}, not {fingerprint!r}",
            "`toolchain cache prune`, then the same command again",
        )
