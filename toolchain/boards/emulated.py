"""Emulated boards: processes of this host under qemu-user, each with a folder of its own.

A board is the folder `emulated/NAME` of the state directory: `board.json` says what it is, `root/`
holds its files. The folder appears in one rename once everything in it works.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, cast

import filelock
from pydantic import BaseModel, ConfigDict, ValidationError

from toolchain import atomic
from toolchain.boards.board import Board
from toolchain.boards.install import install_runtime
from toolchain.boards.local import LocalTransport
from toolchain.config import settings, state_dir
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.profiles import Profile, class_names, load_profile
from toolchain.runtime import Arch, ensure_runtime

_LOCK_SECONDS = 60.0  # longer than an installation under emulation takes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class _State(BaseModel):
    """What `board.json` holds."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_version: Literal[1] = 1
    name: str
    board_class: str
    kind: Literal["process"] = "process"


def default_name(class_name: str) -> str:
    """Return the name that an emulated board of a class gets unless told otherwise."""
    return f"{class_name}-emulated"


def names() -> list[str]:
    """Return the names of all emulated boards, broken ones included, sorted."""
    folder = _folder()
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def list_emulated() -> list[Board]:
    """Return every emulated board; raises for the first broken one."""
    return [load(name) for name in names()]


def load(name: str) -> Board:
    """Return the emulated board `name`.

    Raises
    ------
    UsageError
        There is none of that name.
    ToolchainError
        Its state is broken; says how to clear it away.
    """
    folder = _folder() / name
    clear = f"clear it away: `toolchain board emulate stop {name}`, then start it anew"
    if name not in names():
        raise _unknown(name)
    try:
        state = _State.model_validate_json((folder / "board.json").read_bytes())
    except OSError as error:
        raise ToolchainError(f"board {name}: {folder / 'board.json'}: {error.strerror}", clear) from error
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ToolchainError(f"board {name}: {folder / 'board.json'} is broken: {problem}", clear) from error
    if not (folder / "root").is_dir():
        raise ToolchainError(f"board {name}: its folder {folder / 'root'} is gone", clear)
    return _board(name, load_profile(state.board_class), folder / "root")


def start(
    class_name: str,
    kind: str = "auto",
    name: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Board:
    """Make an emulated board of a class; it exists only once `edge-rt` has answered on it.

    Parameters
    ----------
    class_name
        A board class whose programs this host can run, itself or under qemu-user.
    kind
        `auto` or `process`.
    name
        Default `<class>-emulated`.
    progress
        Told what happens while `edge-rt` is compiled, which takes minutes once.

    Raises
    ------
    UsageError
        Unknown class or kind, a class that cannot be emulated here, or a name that is taken.
    MissingError
        qemu or the C library to run under it is not installed.
    ToolchainError
        The board does not work; nothing is left of it.
    """
    profile = load_profile(class_name)
    name = _checked_name(name or default_name(class_name))
    _check_kind(kind)
    _check_host(profile)
    _check_free(name, class_name)
    # May compile for minutes: not under the lock.
    ensure_runtime(cast(Arch, profile.arch), progress=progress)
    with _writing():
        _check_free(name, class_name)
        with atomic.replacing_folder(_folder() / name) as folder:
            (folder / "root").mkdir()
            install_runtime(_board(name, profile, folder / "root"))
            state = _State(name=name, board_class=class_name)
            atomic.write_text(folder / "board.json", json.dumps(state.model_dump(), indent=1) + "\n")
    return load(name)


def stop(name: str) -> None:
    """Remove an emulated board with all its files.

    Raises
    ------
    UsageError
        There is no emulated board of that name.
    ToolchainError
        A process runs on it, or its folder cannot be removed.
    """
    with _writing():
        if name not in names():
            raise _unknown(name)
        folder = _folder() / name
        if users := _processes_in(folder / "root"):
            raise ToolchainError(
                f"board {name} is in use by {', '.join(users)}",
                "`toolchain lab stop` ends the lab; other commands end by themselves or with Ctrl-C",
            )
        doomed = Path(tempfile.mkdtemp(dir=_folder(), prefix=f".{name}."))
        try:
            folder.rename(doomed / name)  # from here on the board is gone, whatever happens
            shutil.rmtree(doomed)
        except OSError as error:
            raise ToolchainError(f"cannot remove {folder}: {error.strerror}") from error


def emulator(profile: Profile) -> tuple[str, ...]:
    """Return what to put before a program of that class to run it here; empty if nothing is needed."""
    if profile.arch == platform.machine():
        return ()
    found = settings()
    return (found.qemu_aarch64, "-cpu", profile.clusters[0].cpu, "-L", str(found.sysroot_aarch64))


def _board(name: str, profile: Profile, root: Path) -> Board:
    key = f"{profile.name}+emulated"
    return Board(
        name=name,
        profile=profile,
        emulated=True,
        shared_cpu=True,
        transport=LocalTransport(root, emulator(profile)),
        tracker_key=key,
        record_class=key,
    )


def _folder() -> Path:
    return state_dir() / "emulated"


@contextmanager
def _writing() -> Iterator[None]:
    """Let one process at a time change the emulated boards; sweep what killed ones left."""
    folder = _folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", timeout=_LOCK_SECONDS)
        with lock:
            for left in folder.glob(".*.*"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
            yield
    except filelock.Timeout as error:
        raise ToolchainError(
            f"another process has been changing the emulated boards in {folder} for {_LOCK_SECONDS:g} s",
            "wait for it to end, or end it; then try again",
        ) from error
    except OSError as error:
        raise atomic.cannot_write(folder, error) from error


def _check_kind(kind: str) -> None:
    if kind in ("container", "system"):
        raise UsageError(f"--kind {kind}: comes later", "use --kind process")
    if kind not in ("auto", "process"):
        raise UsageError(f"--kind {kind}: unknown", "the kinds are: auto, process, container, system")


def _check_host(profile: Profile) -> None:
    host = platform.machine()
    if profile.arch == host:
        return
    if profile.arch != "aarch64":
        raise UsageError(
            f"board class {profile.name}: {profile.arch} cannot be emulated as a process on a {host} host",
            f"use a class for aarch64 or {host}",
        )
    found = settings()
    if shutil.which(found.qemu_aarch64) is None:
        raise MissingError(
            f"no {found.qemu_aarch64!r} on this machine: it runs the programs of {profile.name} boards",
            "apt-get install qemu-user-static, or set TOOLCHAIN_QEMU_AARCH64",
        )
    loader = found.sysroot_aarch64 / "lib" / "ld-linux-aarch64.so.1"
    if not loader.exists():
        raise MissingError(
            f"no arm64 C library in {found.sysroot_aarch64} ({loader} is not there)",
            "apt-get install libc6-arm64-cross, or set TOOLCHAIN_SYSROOT_AARCH64",
        )


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name}: not a board's name", "use letters, digits, '.', '_' and '-'")
    if name == "local" or name in class_names():
        raise UsageError(
            f"--name {name}: taken by {'this host' if name == 'local' else 'a board class'}",
            f"use another, such as {default_name(name)}",
        )
    return name


def _check_free(name: str, class_name: str) -> None:
    if name not in names():
        return
    there = load(name).profile.name
    if there == class_name:
        raise UsageError(f"board {name} already runs", f"use it: --board {name}")
    raise UsageError(
        f"--name {name}: there is already a board of that name, of class {there}",
        f"use another name, or stop it: `toolchain board emulate stop {name}`",
    )


def _unknown(name: str) -> UsageError:
    known = ", ".join(names()) or "none"
    return UsageError(f"there is no emulated board {name!r}", f"the emulated boards are: {known}")


def _processes_in(root: Path) -> list[str]:
    """Return this host's processes that run on the board: its transport starts them in its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or someone else's
            if Path(os.readlink(process / "cwd")) == root.resolve():  # noqa: PTH115
                found.append(f"{(process / 'comm').read_text().strip()} (process {process.name})")
    return found
