"""Emulated boards as containers: another architecture's system with a real SSH server.

The board's own host key is made inside the container and read out of it by the engine, never over
the network. This host's side of a board is a key of its own, made for it and kept in its folder.
"""

from __future__ import annotations

import hashlib
import io
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from toolchain.architectures.table import LINUX
from toolchain.boards.emulation.qemu import is_foreign
from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.hostkeys import checked_host_key
from toolchain.configuration.settings import state_dir
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.images.debian.system import ensure_image
from toolchain.images.debian.system_files import HOST_KEY, USER, USER_ID
from toolchain.images.engine import LABEL, ContainerRequest, Engine
from toolchain.images.registry.archive import add_file
from toolchain.profiles import Profile

IDENTITY = "identity"  # in the board's folder: the private key that opens it
PURPOSE = "board"
BANNER_SECONDS = 60.0  # 1.5 s here; the rest is for a busy host

_BOARD_LABEL = f"{LABEL}.board"
_STATE_LABEL = f"{LABEL}.state"  # which state folder knows it: others' boards are left alone
_SSH_PORT = 22
_PORTS_TRIED = 5
_PORT_TAKEN = ("port is already allocated", "address already in use")  # as the daemon says it
_KEYGEN_SECONDS = 30.0
_PROCESSES = 2048  # threads count too, and the emulator adds some to each program
# What sshd needs to become its users, and root's everyday rights for provisioning by sudo.
_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_CHROOT"),
)


class ContainerBoard(BaseModel):
    """What has to be kept of a container board; the key to it lies beside, as `identity`."""

    model_config = ConfigDict(extra="forbid")

    id: str
    port: int
    host_key: str

    def address(self, name: str, folder: Path) -> SshAddress:
        """Return how it is reached, given its folder in the state directory."""
        return SshAddress(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            host_key=self.host_key,
            identity=folder / IDENTITY,
            name=name,
            use_config=False,
        )


def prepare(engine: Engine, profile: Profile, progress: Callable[[str], None], *, device: str = "") -> str:
    """Make sure that the image for boards of that class is there; return its tag.

    Parameters
    ----------
    device
        Kind of device that it has a driver of; empty: of none.

    Raises
    ------
    UsageError
        There is no Debian for the class, none with such a driver, or Docker runs on another machine.
    MissingError, ToolchainError
        See `ensure_system`.
    """
    if not engine.is_local:
        raise UsageError(
            f"DOCKER_HOST={engine.where}: emulated boards need a Docker daemon on this machine",
            "unset DOCKER_HOST, or use --kind process",
        )
    if profile.arch not in LINUX:
        raise UsageError(
            f"board class {profile.name}: there is no system for {profile.arch} container boards",
            f"use a class for {', '.join(LINUX)}",
        )
    return ensure_image(engine, profile.architecture.debian, progress, device=device)


def start(
    engine: Engine, image: str, profile: Profile, name: str, folder: Path, *, sudo: bool = True
) -> ContainerBoard:
    """Make a board and wait until its SSH server speaks; on failure nothing is left of it.

    Parameters
    ----------
    folder
        Where the key that opens the board is put.
    sudo
        Whether the login may become root there.
    """
    files = _board_files(profile, _new_identity(folder / IDENTITY, name), sudo)
    for attempt in range(1, _PORTS_TRIED + 1):
        port = _free_port()
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
    """Create a container; one that the daemon makes though its caller was interrupted is removed."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(engine.create, wanted)
        try:
            return future.result()
        except KeyboardInterrupt:
            engine.remove(future.result())
            raise


def resume(engine: Engine, board: ContainerBoard, profile: Profile, name: str) -> None:
    """Let a board that was stopped, killed or paused go on, with its files, port and host key.

    Raises
    ------
    ToolchainError
        Its container is gone, or its SSH server does not speak.
    """
    state = engine.state(board.id)
    if state is None:
        raise ToolchainError(
            f"board {name}: its container {board.id[:12]} is gone",
            f"clear it away: `toolchain board emulate stop {name}`, then start it anew",
        )
    if state == "paused":
        engine.unpause(board.id)
    elif state != "running":
        engine.start(board.id)
    _wait_for_banner(engine, board.id, board.port, profile, name)


def sweep(engine: Engine, known: Mapping[str, str | None]) -> None:
    """Remove this state folder's containers that no board knows: left by processes that were killed.

    Parameters
    ----------
    known
        Of every board its container; None if its state cannot be read: then it keeps what it has.
    """
    for container in engine.containers(PURPOSE):
        name = container.labels.get(_BOARD_LABEL, "")
        ours = container.labels.get(_STATE_LABEL) == _state()
        if ours and not (name in known and known[name] in (None, container.id)):
            engine.remove(container.id)


def programs(engine: Engine, board: ContainerBoard) -> list[str]:
    """Return the command lines of `edge-rt` on a board, as far as the board runs."""
    if engine.state(board.id) != "running":
        return []
    return [line for line in engine.programs(board.id) if "bin/edge-rt" in line]


def _wanted(image: str, profile: Profile, name: str, port: int) -> ContainerRequest:
    state = hashlib.sha256(_state().encode()).hexdigest()[:8]
    return ContainerRequest(
        image=image,
        name=f"{LABEL}-{name}-{state}",
        hostname=name.replace("_", "-"),
        purpose=PURPOSE,
        labels={_BOARD_LABEL: name, _STATE_LABEL: _state()},
        environment={"QEMU_CPU": profile.clusters[0].cpu} if is_foreign(profile) else {},
        ports={_SSH_PORT: port},
        capabilities=_CAPABILITIES,
        memory_mib=profile.memory_mib,
        processes=_PROCESSES,
    )


def _state() -> str:
    return str(state_dir().absolute())


def _board_files(profile: Profile, authorized: str, sudo: bool) -> bytes:
    """Return a tar of what differs from board to board."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        home = f"home/{USER}"
        ssh = tarfile.TarInfo(f"{home}/.ssh")
        ssh.type, ssh.mode, ssh.uid, ssh.gid = tarfile.DIRTYPE, 0o700, USER_ID, USER_ID
        archive.addfile(ssh)
        add_file(archive, f"{home}/.ssh/authorized_keys", authorized.encode(), 0o600, USER_ID)
        if sudo:
            rule = f"{USER} ALL=(ALL) NOPASSWD: ALL\n"
            add_file(archive, f"etc/sudoers.d/{USER}", rule.encode(), 0o440)
        if is_foreign(profile):
            # The emulator reads it: programs see this core's features and no others.
            line = f"SetEnv QEMU_CPU={profile.clusters[0].cpu}\n"
            add_file(archive, "etc/ssh/sshd_config.d/cpu.conf", line.encode())
    return buffer.getvalue()


def _new_identity(file: Path, name: str) -> str:
    """Make a key pair; return its public half."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{LABEL} {name}", "-f", str(file)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_KEYGEN_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise MissingError("no 'ssh-keygen' on this machine", "apt-get install openssh-client") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"ssh-keygen did not make a key within {_KEYGEN_SECONDS:g} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise ToolchainError(f"ssh-keygen cannot make the key {file}: {said}")
    return file.with_suffix(".pub").read_text()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _host_key(engine: Engine, container: str) -> str:
    return checked_host_key(engine.read(container, f"{HOST_KEY}.pub").decode(errors="replace"))


def _wait_for_banner(engine: Engine, container: str, port: int, profile: Profile, name: str) -> None:
    """Docker's proxy takes connections before sshd does: only its first words count."""
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
            said = engine.log(container) if state is not None else ""
            if "exec format error" in said.lower():
                raise _cannot_run(profile)
            what = f"says nothing for {BANNER_SECONDS:g} s" if late else f"ended (container {state})"
            raise ToolchainError(
                f"board {name}: its SSH server {what}" + (f": {last_line(said.encode())}" if said else "")
            )
        time.sleep(0.1)


def _cannot_run(profile: Profile) -> MissingError:
    return MissingError(
        f"this kernel does not run {profile.arch} programs: no emulator is registered with binfmt_misc",
        "`make deps` registers it; without it: --kind process",
    )
