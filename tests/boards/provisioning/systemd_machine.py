"""A machine that runs this host's systemd, in namespaces, over a copy-on-write view of this host's files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.waiting import until

_BOOT = """set -e
cd "$1"
mount -t tmpfs tmpfs upper
mkdir upper/files upper/work
mount -t overlay overlay -o lowerdir=/,upperdir=upper/files,workdir=upper/work root
cd root
mount -t proc proc proc
mount --rbind /sys sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs tmpfs $folder; done
mkdir dev/pts dev/shm
for name in null zero full random urandom tty; do cp -a /dev/$name dev/; done
ln -s pts/ptmx dev/ptmx
rm -f etc/machine-id
touch etc/machine-id
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --show-status=false --unit=basic.target
"""


@dataclass(frozen=True)
class Machine:
    """A running machine: its first process, and its root as this host reaches it."""

    pid: int

    @property
    def root(self) -> Path:
        return Path(f"/proc/{self.pid}/root")

    def run(self, argv: Sequence[str], given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root", "--wd=/", "--"]
        return subprocess.run([*enter, *argv], input=given, capture_output=True, timeout=60, check=False)

    def checked(self, *argv: str) -> str:
        done = self.run(argv)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()


@contextlib.contextmanager
def systemd_machine(folder: Path) -> Iterator[Machine]:
    """Start a machine and wait until it is up; needs root."""
    assert os.geteuid() == 0, "this test needs root: mount and PID namespaces"
    for name in ("upper", "root"):
        (folder / name).mkdir()
    spaces = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"]
    with (folder / "log").open("wb") as log:
        boot = subprocess.Popen(
            [*spaces, "sh", "-c", _BOOT, "sh", folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:

        def is_up() -> bool:
            assert boot.poll() is None, (folder / "log").read_text()
            children = psutil.Process(boot.pid).children()
            if not children or "systemd" not in children[0].name():
                return False
            done = Machine(children[0].pid).run(["systemctl", "is-system-running"])
            return done.stdout.strip() in (b"running", b"degraded")

        until(is_up)
        yield Machine(psutil.Process(boot.pid).children()[0].pid)
    finally:
        boot.send_signal(signal.SIGKILL)
        boot.wait(60)
