"""Test beds: boards with small roots, as Yocto, Buildroot and OpenWrt make them, on this host's kernel.

A bed is a root file system of its own with busybox, glibc without its programs and dropbear, in its own
mount, process and host name namespaces. Programs for x86-64 run there as they are. It shares this host's
loopback interface, so that a login needs no route.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import psutil

from tests.boards.ssh.sshd import free_port, make_key
from tests.waiting import PATIENCE_S, until
from toolchain.boards.ssh.address import SshAddress

_UNPACKED = Path(__file__).parents[2] / ".venv" / "beds"  # by tools/servers.sh
_USER, _UID = "edge", 1000
_LIBRARIES = ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1")  # that edge-rt and networks want

# Debian's busybox is 1.35. `mv -T` came with 1.32: this stands in for the command of older ones.
OLD_MV = """#!/bin/busybox sh
case " $* " in *" -T "*|*" -fT "*|*" -Tf "*)
  echo "mv: invalid option -- 'T'" >&2
  echo 'BusyBox v1.31.1 (stand-in) multi-call binary.' >&2
  echo 'Usage: mv [-fin] SOURCE DEST' >&2
  exit 1;;
esac
exec /bin/busybox mv "$@"
"""
NO_ANSWER = "#!/bin/busybox sh\nexit 0\n"
NO_STAT_F = '#!/bin/busybox sh\n[ "$1" != -f ] && exec busybox stat "$@"\n'
# dropbear runs as the first process of its namespace, so that nothing outlives it.
_BOOT = """set -e
root=$1
mount --make-rprivate /
[ -z "$2" ] || mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do cp -a "/dev/$name" "$root/dev/"; done
mkdir "$root/dev/pts"
mount -t devpts -o ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
shift 2
while [ "$1" != -- ]; do
  mount --bind "$root$1" "$root$1"
  mount -o "remount,bind,$2" "$root$1"
  shift 2
done
shift
while [ "$1" != -- ]; do
  mount -t tmpfs -o "$2" tmpfs "$root$1"
  shift 2
done
shift
[ -z "$1" ] || mount -o remount,bind,ro "$root"
shift
cd "$root"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . "$@"
"""


@dataclass(frozen=True)
class Bed:
    """Description of a board's root.

    Attributes
    ----------
    user
        The login: `root` or `edge`, whose home is /home/edge.
    without
        Commands of busybox that the board lacks, such as `stat`.
    only
        The only commands that the board has besides `sh`; empty: all of busybox.
    programs
        Texts of scripts in the place of commands, by path: stand-ins for programs that cannot be had here.
    binds
        Options such as `noexec` of folders that are mounted once more, by folder.
    file_systems
        Options such as `size=16m` of further file systems (in memory), by folder.
    read_only
        Whether the root is mounted read-only.
    is_mount
        Whether the root is a mount of its own; if not, `df` finds no line for it.
    sudoers
        Text of /etc/sudoers; None: there is no sudo.
    """

    user: str = _USER
    without: Sequence[str] = ()
    only: Sequence[str] = ()
    programs: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, str] = field(default_factory=dict)
    file_systems: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False
    is_mount: bool = True
    sudoers: str | None = None


@dataclass(frozen=True)
class RunningBed:
    """A bed that answers; `root` is its root as this host reaches it, with all that is mounted there."""

    address: SshAddress
    root: Path

    @property
    def home(self) -> Path:
        """The login's home."""
        return self.root / ("root" if self.address.user == "root" else f"home/{_USER}")

    def everything(self) -> set[str]:
        """Return the paths of all files, folders and links but those of the kernel, to be compared later."""
        found = set()
        for folder, folders, files in os.walk(self.root):
            inside = folder.removeprefix(str(self.root))
            folders[:] = [name for name in folders if f"{inside}/{name}" not in ("/proc", "/dev")]
            found |= {f"{inside}/{name}" for name in (*folders, *files)}
        return found


@contextlib.contextmanager
def running(bed: Bed, folder: Path) -> Iterator[RunningBed]:
    """Make a board's root below `folder` and run its SSH server; needs root."""
    assert os.geteuid() == 0, "this test needs root: mount and PID namespaces"
    root = folder / "root"
    _write_root(bed, root)
    public, port = make_key(folder / "id"), free_port()
    for home, owner in ((root / "root", 0), (root / "home" / _USER, _UID)):
        (home / ".ssh").mkdir(mode=0o700, parents=True)
        (home / ".ssh" / "authorized_keys").write_text(f"{public}\n")
        (home / ".ssh" / "authorized_keys").chmod(0o600)
        for path in (home, *home.rglob("*")):
            os.chown(path, owner, owner)
    server = ["/usr/sbin/dropbear", "-F", "-E", "-p", f"127.0.0.1:{port}", "-r", "/etc/dropbear.key"]
    words = [
        *(str(root), "mount" if bed.is_mount else ""),
        *(word for pair in bed.binds.items() for word in pair),
        "--",
        *(word for pair in bed.file_systems.items() for word in pair),
        "--",
        "read-only" if bed.read_only else "",
        *server,
    ]
    spaces = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            [*spaces, "sh", "-c", _BOOT, "sh", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:

        def answers() -> bool:
            assert child.poll() is None, (folder / "log").read_text()
            return _greets(port)

        until(answers, what="that the bed answers")
        (first,) = psutil.Process(child.pid).children()
        address = SshAddress(
            "127.0.0.1", port, bed.user, _host_key(root), folder / "id", name="bed", use_config=False
        )
        yield RunningBed(address, Path(f"/proc/{first.pid}/root"))
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(60)


def _write_root(bed: Bed, root: Path) -> None:
    for name in ("bin", "sbin", "lib", "usr/bin", "usr/sbin", "etc", "proc", "dev", "run", "root", "data"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(0o1777)
    busybox = _UNPACKED / "bin" / "busybox"
    assert busybox.exists(), "no busybox here: tools/servers.sh unpacks one"
    listed = subprocess.run([busybox, "--list-full"], capture_output=True, text=True, check=True, timeout=60)
    for path in listed.stdout.split():
        name = Path(path).name
        if name not in (*bed.without, "busybox") and (not bed.only or name in ("sh", *bed.only)):
            (root / path).symlink_to("/bin/busybox")
    dropbear, key = _UNPACKED / "usr/sbin/dropbear", _UNPACKED / "usr/bin/dropbearkey"
    programs = [busybox, dropbear]
    if bed.sudoers is not None:
        programs += [_UNPACKED / "usr/bin/sudo", *(_UNPACKED / "usr/libexec/sudo").glob("*.so*")]
    for program in programs:
        _install(program, root / program.relative_to(_UNPACKED))
    for library in {*_libraries(*programs), *_system_libraries()}:
        _install(library, root / "lib" / library.name)
    loader = next(iter(_loader()))
    _install(loader, root / str(loader).lstrip("/"))
    for path, text in bed.programs.items():
        (root / path).unlink(missing_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    for folder in (*bed.binds, *bed.file_systems):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _write_etc(bed, root / "etc")
    subprocess.run(
        [key, "-t", "ed25519", "-f", root / "etc" / "dropbear.key"],
        env={"LD_LIBRARY_PATH": _search_path()},
        check=True,
        capture_output=True,
        timeout=60,
    )


def _write_etc(bed: Bed, etc: Path) -> None:
    (etc / "passwd").write_text(
        f"root:*:0:0:root:/root:/bin/sh\n{_USER}:*:{_UID}:{_UID}:{_USER}:/home/{_USER}:/bin/sh\n"
    )
    (etc / "group").write_text(f"root:x:0:\n{_USER}:x:{_UID}:\n")
    (etc / "shells").write_text("/bin/sh\n")
    (etc / "ld.so.conf").write_text("/lib\n")
    if bed.sudoers is not None:
        (etc / "sudoers").write_text(bed.sudoers)
        (etc / "sudoers").chmod(0o440)
        (etc.parent / "usr/bin/sudo").chmod(0o4755)


def _host_key(root: Path) -> str:
    said = subprocess.run(
        [_UNPACKED / "usr/bin/dropbearkey", "-y", "-f", root / "etc" / "dropbear.key"],
        env={"LD_LIBRARY_PATH": _search_path()},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = re.search(r"^ssh-ed25519 \S+", said.stdout, re.MULTILINE)
    assert found, said.stdout
    return found.group()


def _greets(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as probe,
    ):
        return probe.recv(4) == b"SSH-"
    return False


def _search_path() -> str:
    return ":".join(map(str, [*_UNPACKED.glob("usr/lib/*-linux-gnu"), _UNPACKED / "usr/libexec/sudo"]))


@lru_cache
def _libraries(*programs: Path) -> tuple[Path, ...]:
    """Return the libraries that programs load."""
    said = subprocess.run(
        ["ldd", *programs],
        env={**os.environ, "LD_LIBRARY_PATH": _search_path()},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = {Path(path) for path in re.findall(r"=> (/\S+)", said.stdout)}
    return tuple(path for path in found if not path.is_relative_to(_UNPACKED / "usr/libexec"))


def _system_libraries() -> list[Path]:
    """Return further libraries of glibc, from where its own lies; sudo wants those that find accounts."""
    (libc,) = [path for path in _libraries(_UNPACKED / "usr/sbin/dropbear") if path.name == "libc.so.6"]
    there = (libc.with_name(name) for name in (*_LIBRARIES, "libnss_files.so.2"))
    return [path for path in there if path.exists()]


def _loader() -> list[Path]:
    return sorted(Path("/lib64").glob("ld-linux-*.so*"))


def _install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
