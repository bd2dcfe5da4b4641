"""Emulated boards: processes or containers of this host, under qemu-user if the architecture is foreign.

A board of kind `system` is a whole machine under QEMU's system mode. Each board is the folder
`emulated/NAME` of the state directory. `board.json` describes it; `root/` has the files of a process board,
`identity` is the private key of a container or machine, `disk.qcow2` a machine's disk. The folder is renamed
into place once everything in it works.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.emulation import containers
from toolchain.boards.emulation.drivers import (
    check_driver,
    container_files,
    driver_environment,
    in_system,
    install_driver,
    usual_device,
    with_test_bed,
)
from toolchain.boards.emulation.guest import Guest
from toolchain.boards.emulation.qemu import check_host, check_kind, check_test_bed, emulator
from toolchain.boards.emulation.stored import (
    BoardState,
    boards_folder,
    known_containers,
    names,
    read_state,
    removal_hint,
    unknown_board,
    write_state,
)
from toolchain.boards.emulation.system import board as machines
from toolchain.boards.emulation.system.base import ensure_base
from toolchain.boards.emulation.system.machine import end as end_machine
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
from toolchain.records.record import EMULATED
from toolchain.runtime import arch_of, ensure_runtime

_LOCK_SECONDS = 120.0  # a board takes less to start and to be provisioned, emulation included
_ROOT = ".edge-toolchain"  # the installation's folder on a container board, in the login's home
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def default_name(class_name: str) -> str:
    """Return the default name of an emulated board of a class."""
    return f"{class_name}-emulated"


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
    folder, state = boards_folder() / name, read_state(name)
    transport: Transport
    profile = with_test_bed(load_profile(state.board_class), state.device)
    if state.guest:
        transport = _over_ssh(state, state.guest, folder)
    else:
        if not (folder / "root").is_dir():
            raise ToolchainError(f"board {name}: its folder {folder / 'root'} is gone", removal_hint(name))
        transport = _process(folder / "root", profile, state.device)
    return _board(name, profile, transport)


def kind(name: str) -> str:
    """Return how a board is emulated: `process`, `container` or `system`."""
    return read_state(name).kind


def condition(name: str) -> str:
    """Return `ready`, or the state of a machine, or Docker's of a container, that does not run."""
    state = read_state(name)
    if state.system is not None:
        return machines.condition(state.system, boards_folder() / name)
    if state.container is None:
        return "ready"
    try:
        with docker.connect() as engine:
            state_of_container = engine.state(state.container.id)
    except ToolchainError:
        return "Docker does not answer"
    return {None: "gone", "running": "ready"}.get(state_of_container, state_of_container or "")


def start(
    class_name: str,
    kind: str = "auto",
    name: str | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    device: str = "",
) -> Board:
    """Create an emulated board of a class; it is listed only after `edge-rt` has answered on it.

    A container or machine that no longer runs, after a reboot for instance, is started again with its files.

    Parameters
    ----------
    class_name
        A board class whose programs this host can run, itself or under qemu-user.
    kind
        `process`, `container`, `system`, or `auto`: a container if Docker answers, else a process.
    name
        Name of the board, by default `<class>-emulated`.
    progress
        Called with a message when `edge-rt` is compiled, which takes minutes the first time, and when the
        board's system is made.
    device
        Kind of device whose driver the board gets; default: that of the device the class is about, if there
        is one. The driver computes on the CPU: no GPU is emulated.

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
    report = progress or (lambda _: None)
    check_kind(kind)
    device = device or (usual_device(profile) if kind != "system" else "")
    if device:
        check_test_bed(profile, kind, device)
    if _resume(name, class_name, device):
        return load(name)
    _check_free(name, class_name)
    if kind == "system":
        return _start_system(profile, name, report)
    if kind == "container" or in_system(device) or (kind == "auto" and docker.answers()):
        return _start_container(profile, name, report, device)
    check_host(profile)
    # This may compile for minutes: do it before the lock is taken.
    with _new_board(profile, name) as folder:
        root = folder / "root"
        atomic.make_private_folder(root)
        install_driver(device, profile, root)
        board = _board(name, profile, _process(root, profile, device))
        check_driver(board, device)
        write_state(folder, BoardState(name=name, board_class=class_name, device=device))
    return load(name)


def _over_ssh(state: BoardState, guest: Guest, folder: Path) -> SshTransport:
    return SshTransport(guest.address(state.name, folder, state.start_command), _ROOT)


def _process(root: Path, profile: Profile, device: str) -> LocalTransport:
    return LocalTransport(root, emulator(profile), driver_environment(device, root))


def _start_container(profile: Profile, name: str, report: Callable[[str], None], device: str) -> Board:
    with docker.connect() as engine:
        # Both may take minutes: do them before the lock is taken.
        image = containers.prepare(engine, profile, report, device=device if in_system(device) else "")
        driver = container_files(device, profile)
        ensure_runtime(arch_of(profile), progress=report)
        with _new_board(profile, name) as folder:
            containers.sweep(engine, known_containers())
            report(f"starting {name}")
            container = containers.start(engine, image, profile, name, folder, more=driver)
            state = BoardState(
                name=name, board_class=profile.name, kind="container", container=container, device=device
            )
            try:
                with closing(_over_ssh(state, container, folder)) as transport:
                    board = _board(name, profile, transport)
                    provision(board, how=How(progress=report))
                    check_driver(board, device)
                write_state(folder, state)
            except BaseException:
                engine.remove(container.id)
                raise
    return load(name)


def _start_system(profile: Profile, name: str, report: Callable[[str], None]) -> Board:
    machines.check_class(profile)
    # Both may take minutes: do them before the lock is taken.
    ensure_base(profile, report)
    ensure_runtime(arch_of(profile), progress=report)
    with _new_board(profile, name) as folder:
        try:
            machine = machines.start(profile, name, folder, report)
            state = BoardState(name=name, board_class=profile.name, kind="system", system=machine)
            with closing(_over_ssh(state, machine, folder)) as transport:
                board = _board(name, profile, transport)
                provision(board, how=How(progress=report))
                check_driver(board, "")
            write_state(folder, state)
        except BaseException:
            end_machine(folder)
            raise
    return load(name)


def _resume(name: str, class_name: str, device: str) -> bool:
    """Start a container or machine of that class again unless it runs; return whether it was started."""
    if name not in names():
        return False
    state = read_state(name)
    if state.board_class != class_name:
        return False
    if state.system is not None:
        with _writing():
            return machines.resume(state.system, load_profile(class_name), name, boards_folder() / name)
    if state.container is None:
        return False
    if state.device != device:
        option = f"with --{state.device}" if state.device else f"without --{device}"
        raise UsageError(
            f"board {name} was made {option}",
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
        with atomic.replacing_folder(boards_folder() / name) as folder:
            yield folder


def join_groups(name: str, groups: Sequence[str]) -> None:
    """Add an emulated board to groups, under which it is deployed to together with others."""
    with _writing():
        state = read_state(name)
        joined = tuple(dict.fromkeys((*state.groups, *groups)))
        if joined != state.groups:
            write_state(boards_folder() / name, state.model_copy(update={"groups": joined}))


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
            raise unknown_board(name)
        folder = boards_folder() / name
        with _engine_of(name) as engine:
            if users := _processes_in(folder / "root") or _programs_of(engine, name):
                raise ToolchainError(
                    f"board {name} is in use by {', '.join(users)}",
                    "end the lab with `toolchain lab stop`; wait for other commands, or end them with Ctrl-C",
                )
            end_machine(folder)
            doomed = Path(tempfile.mkdtemp(dir=boards_folder(), prefix=f".{name}."))
            try:
                folder.rename(doomed / name)  # from here on the board is no longer listed
                shutil.rmtree(doomed)
            except OSError as error:
                raise ToolchainError(f"cannot remove {folder}: {error.strerror}") from error
            if engine:
                containers.sweep(engine, known_containers())


@contextmanager
def _engine_of(name: str) -> Iterator[docker.Engine | None]:
    """Yield the Docker engine of a board, None for a process board; a broken board may be either kind."""
    known = known_containers()[name]
    if known == "" or (known is None and not docker.answers()):
        yield None
        return
    with docker.connect() as engine:
        yield engine


def _programs_of(engine: docker.Engine | None, name: str) -> list[str]:
    if engine is None or known_containers()[name] is None:
        return []
    container = read_state(name).container
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


@contextmanager
def _writing() -> Iterator[None]:
    """Hold the lock on all emulated boards, and remove what killed processes left behind."""
    folder = boards_folder()
    try:
        for private in (state_dir(), folder):
            atomic.make_private_folder(private)
        with one_at_a_time(folder / ".lock", _LOCK_SECONDS, f"changing the emulated boards in {folder}"):
            for left in folder.glob(".*.*"):
                if left.is_dir():
                    end_machine(left)
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
    existing = load(name).profile.name
    if existing == class_name:
        raise UsageError(f"board {name} already runs", f"use it: --board {name}")
    raise UsageError(
        f"--name {name}: there is already a board of that name, of class {existing}",
        f"use another name, or stop it: `toolchain board emulate stop {name}`",
    )


def _processes_in(root: Path) -> list[str]:
    """Return the processes of this host whose working folder is `root`: those that run on the board."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or someone else's
            if Path(os.readlink(process / "cwd")) == root.resolve():  # noqa: PTH115
                processes.append(f"{(process / 'comm').read_text().strip()} (process {process.name})")
    return processes
