"""Emulated boards as containers: another architecture's system with a real SSH server.

The board's own host key is made inside the container; the engine reads it from there, so it never
travels over the network. The host logs in with a key pair that is made for this board alone.
"""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from toolchain.architectures.table import architecture_of, linux_rows
from toolchain.boards.emulation.guest import IDENTITY, Guest, board_files, free_port, new_identity
from toolchain.boards.emulation.qemu import emulated_cpu, is_foreign
from toolchain.boards.ssh.hostkeys import checked_host_key
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.images.debian.system import ensure_image
from toolchain.images.debian.system_files import HOST_KEY
from toolchain.images.engine import LABEL, ContainerRequest, Engine
from toolchain.images.running.step import STATE_LABEL, own_state
from toolchain.profiles import Profile

PURPOSE = "board"
BANNER_SECONDS = 60.0  # measured: 1.5 s; the rest is margin for a busy host

_BOARD_LABEL = f"{LABEL}.board"
_SSH_PORT = 22
_PORTS_TRIED = 5
_PORT_TAKEN = ("port is already allocated", "address already in use")  # messages of the Docker daemon
_PROCESSES = 2048  # threads count as processes, and the emulator adds some to each program
# sshd needs these to switch to a user; provisioning with sudo needs root's usual rights.
_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_CHROOT"),
)


class ContainerBoard(Guest):
    """The stored facts of a container board."""

    id: str


def prepare(engine: Engine, profile: Profile, progress: Callable[[str], None], *, device: str = "") -> str:
    """Make the image for boards of a class unless it is there; return its tag.

    Parameters
    ----------
    device
        Kind of device whose driver the image contains; empty for no driver.

    Raises
    ------
    UsageError
        There is no Debian for the class, no image with that driver, or Docker runs on another machine.
    MissingError, ToolchainError
        See `ensure_system`.
    """
    if not engine.is_local:
        raise UsageError(
            f"DOCKER_HOST={engine.where}: emulated boards need a Docker daemon on this machine",
            "unset DOCKER_HOST, or use --kind process",
        )
    row = architecture_of(profile.triple)
    if row is None or row.android:
        raise UsageError(
            f"board class {profile.name}: there is no system for {profile.arch} container boards",
            f"use a class for {', '.join(row.name for row in linux_rows())}",
        )
    return ensure_image(engine, row.debian, progress, device=device)


def start(
    engine: Engine,
    image: str,
    profile: Profile,
    name: str,
    folder: Path,
    *,
    sudo: bool = True,
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> ContainerBoard:
    """Create a board and wait until its SSH server answers; on failure remove all of it.

    Parameters
    ----------
    folder
        Folder in which the private key of the board is written.
    sudo
        Whether the login may use sudo without a password.
    more
        More files of its system, by path without the leading `/`, such as a driver.
    """
    files = board_files(profile, new_identity(folder / IDENTITY, name), sudo, more)
    for attempt in range(1, _PORTS_TRIED + 1):
        port = free_port()
        container = _create(engine, _wanted(image, profile, name, port))
        try:
            engine.put(container, files)
            engine.start(container)
            _wait_for_banner(engine, container, port, profile, name)
            return ContainerBoard(id=container, port=port, host_key=_host_key(engine, container))
        except BaseException as error:
            engine.remove(container)
            if "exec format error" in str(error):
                raise _cannot_run(profile) from error
            # Someone else took the port between our look and Docker's.
            if not any(words in str(error) for words in _PORT_TAKEN) or attempt == _PORTS_TRIED:
                raise
    raise AssertionError("unreachable")  # the last attempt returns or raises


def _create(engine: Engine, wanted: ContainerRequest) -> str:
    """Create a container; if this is interrupted, wait for the daemon's answer and remove the container."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(engine.create, wanted)
        try:
            return future.result()
        except KeyboardInterrupt:
            engine.remove(future.result())
            raise


def resume(engine: Engine, board: ContainerBoard, profile: Profile, name: str) -> None:
    """Start or unpause a board that was stopped, killed or paused; files, port and host key are kept.

    Raises
    ------
    ToolchainError
        Its container is gone, or its SSH server does not answer.
    """
    state = engine.state(board.id)
    if state is None:
        raise ToolchainError(
            f"board {name}: its container {board.id[:12]} is gone",
            f"remove it: `toolchain board emulate stop {name}`, then start it again",
        )
    if state == "paused":
        engine.unpause(board.id)
    elif state != "running":
        engine.start(board.id)
    _wait_for_banner(engine, board.id, board.port, profile, name)


def sweep(engine: Engine, known: Mapping[str, str | None]) -> None:
    """Remove containers of this state folder that belong to no board: killed processes left them.

    Parameters
    ----------
    known
        For each board its container; None if its state cannot be read, then its containers are kept.
    """
    for container in engine.containers(PURPOSE):
        name = container.labels.get(_BOARD_LABEL, "")
        ours = container.labels.get(STATE_LABEL) == own_state()
        if ours and not (name in known and known[name] in (None, container.id)):
            engine.remove(container.id)


def programs(engine: Engine, board: ContainerBoard) -> list[str]:
    """Return the command lines of running `edge-rt` processes; none if the board does not run."""
    if engine.state(board.id) != "running":
        return []
    return [line for line in engine.programs(board.id) if "bin/edge-rt" in line]


def _wanted(image: str, profile: Profile, name: str, port: int) -> ContainerRequest:
    state = hashlib.sha256(own_state().encode()).hexdigest()[:8]
    return ContainerRequest(
        image=image,
        name=f"{LABEL}-{name}-{state}",
        hostname=name.replace("_", "-"),
        purpose=PURPOSE,
        labels={_BOARD_LABEL: name, STATE_LABEL: own_state()},
        environment={"QEMU_CPU": emulated_cpu(profile)} if is_foreign(profile) else {},
        ports={_SSH_PORT: port},
        capabilities=_CAPABILITIES,
        memory_mib=profile.memory_mib,
        processes=_PROCESSES,
    )


def _host_key(engine: Engine, container: str) -> str:
    return checked_host_key(engine.read(container, f"{HOST_KEY}.pub").decode(errors="replace"))


def _wait_for_banner(engine: Engine, container: str, port: int, profile: Profile, name: str) -> None:
    """Wait until sshd sends its banner: Docker's proxy accepts connections before sshd does."""
    deadline = time.monotonic() + BANNER_SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        state = engine.state(container)
        late = time.monotonic() > deadline
        if state != "running" or late:
            log = engine.log(container) if state is not None else ""
            if "exec format error" in log.lower():
                raise _cannot_run(profile)
            what = f"did not answer within {BANNER_SECONDS:g} s" if late else f"ended (container {state})"
            raise ToolchainError(
                f"board {name}: its SSH server {what}" + (f": {last_line(log.encode())}" if log else "")
            )
        time.sleep(0.1)


def _cannot_run(profile: Profile) -> MissingError:
    return MissingError(
        f"this kernel does not run {profile.arch} programs: no emulator is registered with binfmt_misc",
        "`make deps` in a checkout registers it, or see docs/howto/install.md; without it: --kind process",
    )
