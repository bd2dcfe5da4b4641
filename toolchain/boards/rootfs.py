"""The root file system of container boards, from Debian's packages; made once and cached.

The packages are unpacked, not installed: none of their scripts runs, which under emulation would
take minutes. What those scripts would have set up, and a board needs, is `_FILES` and `_LINKS`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import filelock

from toolchain import atomic
from toolchain.config import cache_dir, settings
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.archive import add_file, write_archive
from toolchain.images.engine import IMAGE_LABEL, LABEL, Engine

USER = "edge"
USER_ID = 1000
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
DEBIAN = {"aarch64": "arm64", "armv7": "armhf", "armv7a": "armhf", "x86_64": "amd64"}

_GO = {"arm64": "arm64", "armhf": "arm", "amd64": "amd64"}  # what Docker calls them
_SUITE = "bookworm"
_CHANGED = 1686355200  # 2023-06-10, the day of that release: no file says when it was built
_BUILD_SECONDS = 900.0  # 12 s here; the rest is for a slow mirror
_LOCK_SECONDS = 1200.0
_PACKAGES = (
    *("base-files", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "hostname"),
    *("libc-bin", "libpam-modules", "login", "mawk", "netbase", "passwd", "sed", "tar", "util-linux"),
    *("iproute2", "openssh-server", "openssh-sftp-server", "procps", "python3", "sudo"),
)
# Made anew below, of this host, or of no use on a board.
_DROPPED = (
    *("dev/", "etc/hostname", "etc/resolv.conf", "var/cache/", "var/lib/apt/", "var/log/apt/"),
    *("var/run", "var/lock", "usr/share/doc/", "usr/share/locale/", "usr/share/man/", "usr/share/info/"),
    *("usr/share/lintian/", "usr/share/bash-completion/", "usr/share/pixmaps/"),
)
_LINKS = {
    "var/run": "/run",
    "var/lock": "/run/lock",
    "usr/bin/awk": "mawk",
    "usr/bin/which": "which.debianutils",
}
_FOLDERS = {  # permissions, owner
    "run/sshd": (0o755, 0),
    "run/lock": (0o1777, 0),
    f"home/{USER}": (0o755, USER_ID),
}
_FILES = {  # permissions, content
    "etc/passwd": (
        0o644,
        "root:x:0:0:root:/root:/bin/bash\n"
        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
        "sshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/bash\n",
    ),
    "etc/group": (
        0o644,
        "root:x:0:\ndaemon:x:1:\ntty:x:5:\nsudo:x:27:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\n"
        f"staff:x:50:\nusers:x:100:\nnogroup:x:65534:\n{USER}:x:{USER_ID}:\n",
    ),
    # `*`: no password fits; `!` would lock the account, and sshd without PAM refuses locked ones.
    "etc/shadow": (0o640, "".join(f"{n}:*:19518:0:99999:7:::\n" for n in ("root", "sshd", "nobody", USER))),
    "etc/shells": (0o644, "/bin/sh\n/bin/bash\n"),
    "etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"),
    "etc/profile": (
        0o644,
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n",
    ),
    "etc/pam.d/common-auth": (0o644, "auth required pam_unix.so\n"),
    "etc/pam.d/common-account": (0o644, "account required pam_unix.so\n"),
    "etc/pam.d/common-password": (0o644, "password required pam_unix.so\n"),
    "etc/pam.d/common-session": (0o644, "session required pam_unix.so\n"),
    "etc/pam.d/common-session-noninteractive": (0o644, "session required pam_unix.so\n"),
    "etc/ssh/sshd_config": (
        0o644,
        f"HostKey {HOST_KEY}\n"
        "Include /etc/ssh/sshd_config.d/*.conf\n"
        "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin no\n"
        "PrintMotd no\nUseDNS no\nX11Forwarding no\n"
        # An unclean disconnect must not hold a forwarded port for long.
        "ClientAliveInterval 5\nClientAliveCountMax 3\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\n",
    ),
    "usr/local/sbin/board": (
        0o755,
        "#!/bin/sh\nset -eu\n"
        f'[ -s {HOST_KEY} ] || ssh-keygen -q -t ed25519 -N "" -C "$(hostname)" -f {HOST_KEY}\n'
        "exec /usr/sbin/sshd -D -e\n",
    ),
}
_COMMAND = ("/usr/local/sbin/board",)
_LABELS = {IMAGE_LABEL: "board"}


def cached_name(architecture: str) -> str:
    """Return the name of the file in the cache for one of Debian's architectures."""
    recipe = (
        _SUITE,
        _PACKAGES,
        _DROPPED,
        _LINKS,
        _FOLDERS,
        _FILES,
        _COMMAND,
        _LABELS,
        _CHANGED,
        architecture,
    )
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    return f"{architecture}-{digest[:16]}.tar"


def ensure_image(engine: Engine, machine: str, progress: Callable[[str], None]) -> str:
    """Make sure that the engine has the image of a board of that machine; return its tag.

    Parameters
    ----------
    machine
        A profile's architecture, such as aarch64.

    Raises
    ------
    MissingError
        `mmdebstrap` is not installed.
    ToolchainError
        The packages cannot be fetched, or the image cannot be loaded; nothing is left of it.
    """
    architecture = DEBIAN[machine]
    name = cached_name(architecture)
    tag = f"{LABEL}/board:{name.removesuffix('.tar')}"
    if engine.has_image(tag):
        return tag
    file = cache_dir() / "rootfs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(f"{file}.lock", timeout=_LOCK_SECONDS):
            if engine.has_image(tag):
                return tag
            if not file.exists():
                progress(f"unpacking Debian {_SUITE} for {architecture} boards, once (under a minute)")
                build(file, architecture, tag)
            progress(f"loading {tag} into Docker")
            engine.load_image(file)
    except filelock.Timeout as error:
        raise ToolchainError(
            f"another process has been making {file} for {_LOCK_SECONDS:g} s",
            "wait for it to end, or end it; then try again",
        ) from error
    return tag


def build(target: Path, architecture: str, tag: str) -> None:
    """Write the image of a board as a docker-archive; see `ensure_image` for what can go wrong."""
    with (
        atomic.replacing(target) as archive,
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".rootfs.") as folder,
    ):
        layer = Path(folder) / "layer.tar"
        with _unpacked(architecture, Path(folder) / "log") as packages:
            _write_layer(packages, layer)
        write_archive(archive, layer, tag, _GO[architecture], _COMMAND, _LABELS)


@contextmanager
def _unpacked(architecture: str, log: Path) -> Iterator[IO[bytes]]:
    """Yield the packages with all they depend on as one tar stream."""
    command = [
        *("mmdebstrap", "--variant=extract", "--format=tar", f"--architectures={architecture}"),
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        f"--include={','.join(_PACKAGES)}",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=Acquire::Retries "3"',
        *(_SUITE, "-", f"deb {settings().debian_mirror} {_SUITE} main"),
    ]
    try:
        with log.open("wb") as errors:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
    except FileNotFoundError as error:
        raise MissingError(
            "no 'mmdebstrap' on this machine: it makes the file system of container boards",
            "apt-get install mmdebstrap, or `make deps`; without it: --kind process",
        ) from error
    late = threading.Timer(_BUILD_SECONDS, _end, [child])
    late.start()
    failed = ToolchainError("")
    try:
        assert child.stdout is not None  # noqa: S101 - PIPE above
        try:
            yield child.stdout
            while child.stdout.read(1 << 16):  # padding after the end of the tar
                pass
        except tarfile.TarError as error:
            failed.__cause__ = error
        code = child.wait()
    except BaseException:
        _end(child)
        raise
    finally:
        late.cancel()
        if child.stdout:
            child.stdout.close()
    if code != 0 or failed.__cause__:
        lines = log.read_text(errors="replace").strip().splitlines()
        said = [line for line in lines if line.startswith("E:")] or lines[-1:] or ["it said nothing"]
        raise ToolchainError(
            f"mmdebstrap cannot make a file system for {architecture} boards: {said[0]}",
            f"does {settings().debian_mirror} answer? Another mirror: set TOOLCHAIN_DEBIAN_MIRROR; "
            "or go on without a container: --kind process",
        ) from failed.__cause__


def _end(child: subprocess.Popen[bytes]) -> None:
    """End mmdebstrap, which cleans up after itself if it is let."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(10)


def _write_layer(packages: IO[bytes], layer: Path) -> None:
    made = {*_LINKS, *_FILES}
    with (
        tarfile.open(fileobj=packages, mode="r|") as source,
        tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as target,
    ):
        for entry in source:
            entry.name = entry.name.removeprefix("./").rstrip("/")
            if not entry.name or entry.name == "." or entry.name in made or _is_dropped(entry.name):
                continue
            entry.linkname = entry.linkname.removeprefix("./") if entry.islnk() else entry.linkname
            entry.mtime, entry.uname, entry.gname = _CHANGED, "", ""
            entry.pax_headers = {}
            target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
        for name, (mode, owner) in _FOLDERS.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.uid, folder.gid = tarfile.DIRTYPE, mode, owner, owner
            folder.mtime = _CHANGED
            target.addfile(folder)
        for name, content in _LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname, link.mtime = tarfile.SYMTYPE, content, _CHANGED
            target.addfile(link)
        for name, (mode, text) in _FILES.items():
            add_file(target, name, text.encode(), mode, changed=_CHANGED)


def _is_dropped(name: str) -> bool:
    return any(name == d.rstrip("/") or (d.endswith("/") and name.startswith(d)) for d in _DROPPED)
