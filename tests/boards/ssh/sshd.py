"""A real sshd on loopback, as the user who runs the tests, with keys of its own."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from tests.waiting import PATIENCE_S
from toolchain.boards.ssh.address import SshAddress, Way

_UNPACKED = Path(__file__).parents[3] / ".venv" / "sshd"  # by tools/servers.sh, where the system has none


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_key(file: Path, kind: str = "ed25519") -> str:
    """Make a key pair; return the public key without its comment."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", file], check=True, timeout=60)
    return " ".join(file.with_name(file.name + ".pub").read_text().split()[:2])


@dataclass
class Sshd:
    """A server that runs; its logins have the home folder of the user who runs the tests."""

    folder: Path
    port: int
    host_key: str
    identity: Path
    process: subprocess.Popen[bytes]

    def address(
        self, port: int | None = None, name: str = "bench", ssh: Literal["auto"] | Way = "paramiko"
    ) -> SshAddress:
        """Return its address, or that of a proxy before it."""
        return SshAddress(
            "127.0.0.1",
            port or self.port,
            getpass.getuser(),
            self.host_key,
            self.identity,
            name=name,
            use_config=False,
            ssh=ssh,
        )

    @property
    def root(self) -> Path:
        """The folder of the board."""
        return self.folder / "board"

    def sessions(self) -> list[psutil.Process]:
        """Return the server's processes for the connections there are.

        psutil's `children` compares when processes began, and misses some if the clock was set back.
        """
        there = {process.pid: process for process in psutil.process_iter(["name", "ppid"])}

        def is_below(process: psutil.Process | None) -> bool:
            while process is not None and process.info["ppid"] != self.process.pid:
                process = there.get(process.info["ppid"])
            return process is not None

        # Since 9.8 a connection has an `sshd-session`.
        return [each for each in there.values() if each.info["name"].startswith("sshd") and is_below(each)]

    def stop(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.send_signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait(60)


def _helper_programs() -> list[str]:
    """Say where an unpacked server's own programs are; those before 9.8 have none."""
    found = {name: _UNPACKED / f"usr/lib/openssh/{name}" for name in ("sshd-session", "sshd-auth")}
    options = {"sshd-session": "SshdSessionPath", "sshd-auth": "SshdAuthPath"}
    return [f"{options[name]} {path}" for name, path in found.items() if path.exists()]


@contextlib.contextmanager
def sshd(folder: Path, *options: str, port: int | None = None, before: Sequence[str] = ()) -> Iterator[Sshd]:
    """Run a server below `folder`; `options` are lines for its sshd_config, which go first.

    `before` are words before its command, which say where it runs.
    """
    program = shutil.which("sshd", path=os.environ["PATH"] + f":/usr/sbin:/sbin:{_UNPACKED}/usr/sbin")
    assert program, "no sshd here: tools/servers.sh unpacks one"
    folder.mkdir(parents=True, exist_ok=True)
    host_key = make_key(folder / "host")
    key = make_key(folder / "id")
    (folder / "authorized_keys").write_text(key + "\n")
    (folder / "board").mkdir(exist_ok=True)
    port = port or free_port()
    lines = [
        *options,
        *_helper_programs(),
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        f"PidFile {folder}/pid",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "UsePAM no",
        "StrictModes no",
        "Subsystem sftp internal-sftp",
        "SetEnv SHLVL=1",  # keeps bash from reading the tester's own ~/.bashrc
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it for privilege separation
    argv = [*before, program, "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "log")]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": libraries()}
    )
    server = Sshd(folder, port, host_key, folder / "id", process)
    try:
        wait_for_banner(server)
        yield server
    finally:
        server.stop()


def libraries() -> str:
    """Return, as LD_LIBRARY_PATH, the folders with what an unpacked server needs."""
    return ":".join(str(folder) for folder in _UNPACKED.glob("usr/lib/*-linux-gnu"))


def wait_for_banner(server: Sshd) -> None:
    """Return once a server answers."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert server.process.poll() is None, (server.folder / "log").read_text()
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as probe,
        ):
            if probe.recv(4) == b"SSH-":
                return
        assert time.monotonic() < deadline, "sshd does not answer"
        time.sleep(0.02)
