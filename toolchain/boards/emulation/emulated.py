"""Emulated boards: processes or containers of this host, under qemu-user if the architecture is foreign.

Each board is the folder `emulated/NAME` of the state directory. `board.json` describes it; `root/` has
the files of a process board, `identity` is the private key of a container board. The folder is renamed
into place once everything in it works.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.emulation import containers
from toolchain.boards.emulation.containers import ContainerBoard
from toolchain.boards.emulation.qemu import emulator
from toolchain.boards.emulation.requirements import check_host, check_kind, check_test_bed
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.provisioning import How, provision
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import Transport
from toolchain.configuration.settings import configuration, state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.turns import one_at_a_time
from toolchain.images import engine as docker
from toolchain.profiles import Profile, class_names, load_profile
from toolchain.records.key import EMULATED
from toolchain.runtime import arch_of, ensure_runtime

_LOCK_SECONDS = 120.0  # a board takes less to start and to be provisioned, emulation included
_ROOT = ".edge-toolchain"  # the installation's folder on a container board, in the login's home
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


class _State(BaseModel):
    """The content of `board.json`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_version: Literal[1] = 1
    name: str
    board_class: str
    kind: Literal["process", "container"] = "process"
    container: ContainerBoard | None = None
    device: str = ""  # kind of device whose driver its system contains

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        if isinstance(values, dict) and "opencl" in values:  # files from before `device`
            values = dict(values)
            values["device"] = "opencl" if values.pop("opencl") else ""
        return values


def default_name(class_name: str) -> str:
    """Return the default name of an emulated board of a class."""
    return f"{class_name}-emulated"


def names() -> list[str]:
    """Return the names of all emulated boards, broken ones included, sorted."""
    folder = _folder()
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def list_emulated() -> list[Board]:
    """Return all emulated boards; raise the error of the first broken one."""
    return [load(name) for name in names()]


def load(name: str) -> Board:
    """Return the emulated board `name`.

    Raises
    ------
    UsageError
        There is no emulated board of that name.
    ToolchainError
        Its state is broken; the hint says how to remove it.
    """
    folder, state = _folder() / name, _read(name)
    transport: Transport
    profile = load_profile(state.board_class)
    if state.container:
        transport = SshTransport(state.container.address(name, folder), _ROOT)
    else:
        if not (folder / "root").is_dir():
            raise ToolchainError(f"board {name}: its folder {folder / 'root'} is gone", _clear(name))
        transport = LocalTransport(folder / "root", emulator(profile))
    return _board(name, profile, transport)


def kind(name: str) -> str:
    """Return how a board is emulated: `process` or `container`."""
    return _read(name).kind


def condition(name: str) -> str:
    """Return `ready`, or Docker's state of a container that does not run."""
    state = _read(name)
    if state.container is None:
        return "ready"
    try:
        with docker.connect() as engine:
            found = engine.state(state.container.id)
    except ToolchainError:
        return "Docker does not answer"
    return {None: "gone", "running": "ready"}.get(found, found or "")


def _clear(name: str) -> str:
    return f"remove it: `toolchain board emulate stop {name}`, then start it again"


def _read(name: str) -> _State:
    file = _folder() / name / "board.json"
    if name not in names():
        raise _unknown(name)
    try:
        return _State.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ToolchainError(f"board {name}: {file}: {error.strerror}", _clear(name)) from error
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ToolchainError(f"board {name}: {file} is broken: {problem}", _clear(name)) from error


def start(
    class_name: str,
    kind: str = "auto",
    name: str | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    device: str = "",
) -> Board:
    """Create an emulated board of a class; it is listed only after `edge-rt` has answered on it.

    A container board that no longer runs, after a reboot for instance, is started again with its files.

    Parameters
    ----------
    class_name
        A board class whose programs this host can run, itself or under qemu-user.
    kind
        `process`, `container`, or `auto`: a container if Docker answers.
    name
        Name of the board, by default `<class>-emulated`.
    progress
        Called with a message when `edge-rt` is compiled, which takes minutes the first time, and when the
        board's system is made.
    device
        Kind of device whose driver the container gets. The driver computes on the CPU: no GPU is emulated.

    Raises
    ------
    UsageError
        Unknown class or kind, a class that cannot be emulated here, or a name that is taken.
    MissingError
        qemu or the C library to run under it is not installed, or Docker does not answer.
    ToolchainError
        The board does not work; all of it was removed.
    """
    profile = load_profile(class_name)
    arch_of(profile)  # refuses a class whose boards run nothing of ours
    name = _checked_name(name or default_name(class_name))
    told = progress or (lambda _: None)
    check_kind(kind)
    if device:
        check_test_bed(profile, kind, device)
    if _resume(name, class_name, device):
        return load(name)
    _check_free(name, class_name)
    if kind == "container" or device or (kind == "auto" and docker.answers()):
        return _start_container(profile, name, told, device)
    check_host(profile)
    # This may compile for minutes: do it before the lock is taken.
    with _new_board(profile, name) as folder:
        atomic.make_private_folder(folder / "root")
        install(_board(name, profile, LocalTransport(folder / "root", emulator(profile))))
        _write(folder, _State(name=name, board_class=class_name))
    return load(name)


def _start_container(profile: Profile, name: str, told: Callable[[str], None], device: str) -> Board:
    with docker.connect() as engine:
        # Both may take minutes: do them before the lock is taken.
        image = containers.prepare(engine, profile, told, device=device)
        ensure_runtime(arch_of(profile), progress=told)
        with _new_board(profile, name) as folder:
            containers.sweep(engine, _known_containers())
            told(f"starting {name}")
            made = containers.start(engine, image, profile, name, folder)
            try:
                with closing(SshTransport(made.address(name, folder), _ROOT)) as transport:
                    provision(_board(name, profile, transport), how=How(progress=told))
                state = _State(name=name, board_class=profile.name, kind="container", container=made)
                _write(folder, state.model_copy(update={"device": device}))
            except BaseException:
                engine.remove(made.id)
                raise
    return load(name)


def _resume(name: str, class_name: str, device: str) -> bool:
    """Start a container board of that class again if it is not running; return whether it was started."""
    if name not in names():
        return False
    state = _read(name)
    if state.container is None or state.board_class != class_name:
        return False
    if state.device != device:
        made = f"with --{state.device}" if state.device else f"without --{device}"
        raise UsageError(
            f"board {name} was made {made}",
            f"use another --name, or stop it: `toolchain board emulate stop {name}`",
        )
    with docker.connect() as engine, _writing():
        if engine.state(state.container.id) == "running":
            return False
        containers.resume(engine, state.container, load_profile(class_name), name)
    return True


@contextmanager
def _new_board(profile: Profile, name: str) -> Iterator[Path]:
    with _writing():
        _check_free(name, profile.name)
        with atomic.replacing_folder(_folder() / name) as folder:
            yield folder


def _write(folder: Path, state: _State) -> None:
    text = json.dumps(state.model_dump(exclude_none=True), indent=1)
    atomic.write_text(folder / "board.json", text + "\n", mode=0o600)


def _known_containers() -> dict[str, str | None]:
    """Return the container of every board: empty for a process board, None for a broken one."""
    known: dict[str, str | None] = {}
    for name in names():
        try:
            state = _read(name)
        except ToolchainError:
            known[name] = None
            continue
        known[name] = state.container.id if state.container else ""
    return known


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
        with _engine_of(name) as engine:
            if users := _processes_in(folder / "root") or _programs_of(engine, name):
                raise ToolchainError(
                    f"board {name} is in use by {', '.join(users)}",
                    "end the lab with `toolchain lab stop`; wait for other commands, or end them with Ctrl-C",
                )
            doomed = Path(tempfile.mkdtemp(dir=_folder(), prefix=f".{name}."))
            try:
                folder.rename(doomed / name)  # from here on the board is no longer listed
                shutil.rmtree(doomed)
            except OSError as error:
                raise ToolchainError(f"cannot remove {folder}: {error.strerror}") from error
            if engine:
                containers.sweep(engine, _known_containers())


@contextmanager
def _engine_of(name: str) -> Iterator[docker.Engine | None]:
    """Yield the Docker engine of a board, None for a process board; a broken board may be either kind."""
    known = _known_containers()[name]
    if known == "" or (known is None and not docker.answers()):
        yield None
        return
    with docker.connect() as engine:
        yield engine


def _programs_of(engine: docker.Engine | None, name: str) -> list[str]:
    if engine is None or _known_containers()[name] is None:
        return []
    container = _read(name).container
    return containers.programs(engine, container) if container else []


def _board(name: str, profile: Profile, transport: Transport) -> Board:
    key = profile.name + EMULATED
    return Board(
        name=name,
        profile=profile,
        emulated=True,
        shared_cpu=True,
        transport=transport,
        tracker_key=key,
        record_class=key,
    )


def _folder() -> Path:
    return state_dir() / "emulated"


@contextmanager
def _writing() -> Iterator[None]:
    """Hold the lock on all emulated boards, and remove what killed processes left behind."""
    folder = _folder()
    try:
        for private in (state_dir(), folder):
            atomic.make_private_folder(private)
        with one_at_a_time(folder / ".lock", _LOCK_SECONDS, f"changing the emulated boards in {folder}"):
            for left in folder.glob(".*.*"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
            yield
    except OSError as error:
        raise atomic.cannot_write(folder, error) from error


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"--name {name}: not a board's name", "use letters, digits, '.', '_' and '-'")
    if name == "local" or name in class_names():
        raise UsageError(
            f"--name {name}: taken by {'this host' if name == 'local' else 'a board class'}",
            f"use another, such as {default_name(name)}",
        )
    if name in configuration().boards:
        raise UsageError(
            f"--name {name}: taken by a board of {configuration().file}",
            f"use another, such as --name {default_name(name)}",
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
    """Return the processes of this host whose working folder is `root`: those that run on the board."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or someone else's
            if Path(os.readlink(process / "cwd")) == root.resolve():  # noqa: PTH115
                found.append(f"{(process / 'comm').read_text().strip()} (process {process.name})")
    return found
