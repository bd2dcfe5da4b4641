"""Boards that are containers or machines: their SSH address, their key, and their own files."""

from __future__ import annotations

import io
import socket
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from toolchain.boards.emulation.qemu import emulated_cpu, is_foreign
from toolchain.boards.ssh.address import SshAddress
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.debian.system_files import USER, USER_ID
from toolchain.images.engine import LABEL
from toolchain.images.registry.archive import add_file
from toolchain.profiles import Profile

IDENTITY = "identity"  # the private key to log in with, in the board's folder
_KEYGEN_SECONDS = 30.0


class Guest(BaseModel):
    """The stored facts of a board behind a port of this host; its private key is the file `identity`."""

    model_config = ConfigDict(extra="forbid")

    port: int
    host_key: str

    def address(self, name: str, folder: Path, start_command: str) -> SshAddress:
        """Return the SSH address of the board; `folder` is its folder in the state directory."""
        return SshAddress(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            host_key=self.host_key,
            identity=folder / IDENTITY,
            name=name,
            use_config=False,
            start_command=start_command,
        )


def board_files(profile: Profile, authorized: str, sudo: bool, more: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of the files that differ from board to board.

    Parameters
    ----------
    authorized
        The public key that may log in.
    sudo
        Whether the board's user may become root.
    more
        More files of its system, by path without the leading `/`.
    """
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
            # qemu reads it, so that programs see the features of this core and no others.
            line = f"SetEnv QEMU_CPU={emulated_cpu(profile)}\n"
            add_file(archive, "etc/ssh/sshd_config.d/cpu.conf", line.encode())
        for path, content in more.items():
            add_file(archive, path, content, 0o755)
    return buffer.getvalue()


def new_identity(file: Path, name: str) -> str:
    """Make a key pair without a passphrase; return the public key.

    Raises
    ------
    MissingError, ToolchainError
        ssh-keygen is not installed, or failed.
    """
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
        errors = done.stderr.decode(errors="replace").strip()
        raise ToolchainError(f"ssh-keygen cannot make the key {file}: {errors}")
    return file.with_suffix(".pub").read_text()


def free_port() -> int:
    """Return a port of 127.0.0.1 that no program has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
