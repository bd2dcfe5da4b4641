"""Servers as small boards have them: another login shell, a home with start files, dropbear."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.boards.ssh.sshd import Sshd, free_port, make_key, wait_for_banner

_VENV = Path(__file__).parents[3] / ".venv"
_DROPBEAR = _VENV / "beds"
TCSH, CSH = _VENV / "tcsh/bin/tcsh", _VENV / "tcsh/bin/bsd-csh"


@dataclass(frozen=True)
class Account:
    """The account that runs the tests, with another home and another login shell.

    Attributes
    ----------
    before
        Words before a server's command: they give it a mount namespace where /etc/passwd says so.
    """

    home: Path
    before: tuple[str, ...]


def account(folder: Path, shell: str | Path = "/bin/bash", *, open_to_all: bool = False) -> Account:
    """Make an account in `folder`; if it is open to all, it has an empty password."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True)
    home.chmod(0o755)
    me = pwd.getpwuid(os.getuid())
    lines = [
        line
        if line.split(":")[0] != me.pw_name
        else f"{me.pw_name}:x:{me.pw_uid}:{me.pw_gid}::{home}:{shell}"
        for line in Path("/etc/passwd").read_text().splitlines()
    ]
    (folder / "passwd").write_text("\n".join(lines) + "\n")
    (folder / "shells").write_text(f"{shell}\n")
    (folder / "shadow").write_text(f"{me.pw_name}:{'' if open_to_all else '*'}:19000:0:99999:7:::\n")
    files = ("passwd", "shells", "shadow")
    mounts = " && ".join(f"mount --bind {folder}/{name} /etc/{name}" for name in files)
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return Account(home, (*namespace, "sh", "-c", f'{mounts} && exec "$@"', "sh"))


@contextlib.contextmanager
def dropbear(folder: Path, *options: str) -> Iterator[Sshd]:
    """Run a dropbear below `folder`, whose logins have a home there."""
    folder.mkdir(parents=True, exist_ok=True)
    there = account(folder)
    make_key(folder / "id")
    (there.home / ".ssh" / "authorized_keys").write_bytes((folder / "id.pub").read_bytes())
    (there.home / ".ssh").chmod(0o700)
    (folder / "board").mkdir()
    libraries = ":".join(str(each) for each in _DROPBEAR.glob("usr/lib/*-linux-gnu"))
    surroundings = {**os.environ, "LD_LIBRARY_PATH": libraries}
    made = subprocess.run(
        [_DROPBEAR / "usr/bin/dropbearkey", "-t", "ed25519", "-f", folder / "host"],
        check=True,
        capture_output=True,
        text=True,
        env=surroundings,
        timeout=60,
    )
    host_key = next(line for line in made.stdout.splitlines() if line.startswith("ssh-"))
    port = free_port()
    argv = [*there.before, str(_DROPBEAR / "usr/sbin/dropbear"), "-F", "-E", "-s"]
    argv += ["-p", f"127.0.0.1:{port}", "-r", str(folder / "host"), "-P", str(folder / "pid"), *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log, env=surroundings)
    server = Sshd(folder, port, " ".join(host_key.split()[:2]), folder / "id", process)
    try:
        wait_for_banner(server)
        yield server
    finally:
        server.stop()


def programs(word: str) -> list[int]:
    """Return the processes of this machine whose command line has `word` among its words."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or [])]
